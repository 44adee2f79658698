# The shares and limits of users.
# How many jobs of a user may be pending or running, each element of an array counted: nobody fills the queue of all (MaxJobCount in
# slurm.conf) alone.
readonly MOST_JOBS=5000

step_user_limits() {
    local name limits known
    if [ ! -e "$BUNDLE/users" ]; then return; fi
    wait_for_gpus
    while read -r name _ limits; do
        read -r -a limits <<<"$limits"
        limit "$name" "${limits[@]:0:3}" "maxsubmitjobs=$MOST_JOBS"
    done <"$BUNDLE/users"
    known=$(ask_accounting -n -P list association "cluster=${CLUSTER,,}" account=users format=user)
    while read -r name; do
        if is_former "$name"; then limit "$name" maxsubmitjobs=0; fi
    done <<<"$known"
}

# wait_for_gpus: sacctmgr refuses a limit of GPUs until slurmctld, which may have started a moment ago, has told the database that there
# are any.
wait_for_gpus() {
    local known
    for _ in {1..120}; do
        known=$(ask_accounting -n -P list tres format=type,name)
        if grep -qxF 'gres|gpu' <<<"$known"; then return; fi
        sleep 0.5
    done
    fail "Slurm's database does not know gres/gpu after a minute: see /var/log/slurm/slurmctld.log"
}

# limit NAME LIMIT...
limit() {
    ask_accounting -i modify user where "name=$1" account=users set "${@:2}"
}

# is_former NAME: Slurm knows them for their shares and ended jobs, and the list does not have them.
is_former() {
    [ -n "$1" ] && [ "$1" != "$JOB_USER" ] && ! grep -q "^$1 " "$BUNDLE/users"
}
