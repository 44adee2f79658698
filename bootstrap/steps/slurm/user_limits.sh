# The shares and limits of users. After slurmctld's first start, because Slurm's database learns from it that there are GPUs.
step_user_limits() {
    local name limits known
    if [ ! -e "$BUNDLE/users" ]; then return; fi
    while read -r name _ limits; do
        read -r -a limits <<<"$limits"
        limit "$name" "${limits[@]:0:3}" maxsubmitjobs=-1
    done <"$BUNDLE/users"
    known=$(timeout 30 sacctmgr -Q -n -P list association "cluster=${CLUSTER,,}" account=users format=user)
    while read -r name; do
        if is_former "$name"; then limit "$name" maxsubmitjobs=0; fi
    done <<<"$known"
}

# limit NAME LIMIT...
limit() {
    timeout 30 sacctmgr -Q -i modify user where "name=$1" account=users set "${@:2}" </dev/null
}

# is_former NAME: Slurm knows them for their shares and ended jobs, and the list does not have them.
is_former() {
    [ -n "$1" ] && [ "$1" != "$JOB_USER" ] && ! grep -q "^$1 " "$BUNDLE/users"
}
