# Before slurmctld starts for the first time, slurmdbd must answer and know the cluster.
step_accounting() {
    local known
    if [ "$ACCOUNTING" = off ]; then return; fi
    known=$(wait_for_accounting)
    if ! grep -qxF -- "${CLUSTER,,}" <<<"$known"; then accounting -i add cluster "${CLUSTER,,}"; fi
    if [ -e "$BUNDLE/users" ]; then slurm_users; fi
    # The cluster's number comes from the database. slurmctld refuses to start with a number of another database, or one that it
    # made up itself.
    if [ "$(cat "$DATABASE_IN_USE" 2>/dev/null || true)" != "$(database)" ]; then
        rm -f "$DATA/slurm-state/clustername"
    fi
}

# Slurm refuses jobs of accounts that are not added here. The administrator sees and cancels all jobs.
slurm_users() {
    local known name
    known=$(accounting -n -P list association "cluster=${CLUSTER,,}" account=users format=account,user)
    if ! grep -qxF 'users|' <<<"$known"; then accounting -i add account users "cluster=${CLUSTER,,}"; fi
    while read -r name _; do
        if grep -qxF "users|$name" <<<"$known"; then continue; fi
        accounting -i add user "$name" account=users "cluster=${CLUSTER,,}"
    done < <(echo "$JOB_USER" && cat "$BUNDLE/users")
    accounting -i modify user where "name=$JOB_USER" set adminlevel=Admin
}

# accounting ARGUMENT...: sacctmgr reads the daemon's address from slurm.conf, which only the next step installs.
accounting() {
    SLURM_CONF=$BUNDLE/slurm/slurm.conf ask_accounting "$@"
}

# Prints the clusters in slurmdbd.
wait_for_accounting() {
    for _ in {1..240}; do
        if accounting -n -P list cluster format=cluster 2>/dev/null; then return; fi
        systemctl is-active --quiet slurmdbd || restarts_soon || service_failed slurmdbd
        sleep 0.25
    done
    fail "slurmdbd does not answer: see /var/log/slurm/slurmdbd.log"
}

# Whether systemd is starting slurmdbd again, and not for the third time: on RDS its first start may end (see slurms_database).
restarts_soon() {
    # One answer: between two, the state may change.
    case $(systemctl show --property=ActiveState,NRestarts slurmdbd | sort | paste -sd ' ') in
        'ActiveState=activating NRestarts='[01]) ;;
        *) return 1 ;;
    esac
}
