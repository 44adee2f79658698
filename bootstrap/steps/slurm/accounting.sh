# slurmctld does not start for the first time before slurmdbd answers and knows the cluster.
step_accounting() {
    local known
    if [ "$ACCOUNTING" = off ]; then return; fi
    known=$(wait_for_accounting)
    if ! grep -qxF -- "${CLUSTER,,}" <<<"$known"; then accounting -i add cluster "${CLUSTER,,}"; fi
    # The cluster's number is the database's. slurmctld refuses to start with that of another, or one it made up itself.
    if [ "$(cat "$DATABASE_IN_USE" 2>/dev/null || true)" != "$(database)" ]; then
        rm -f "$DATA/slurm-state/clustername"
    fi
}

# accounting ARGUMENT...: sacctmgr asks slurm.conf where the daemon is, and that is not in its place before the next step.
accounting() {
    SLURM_CONF=$BUNDLE/slurm/slurm.conf timeout 30 sacctmgr -Q "$@"
}

# Prints the clusters that slurmdbd knows.
wait_for_accounting() {
    for _ in {1..240}; do
        if accounting -n -P list cluster format=cluster 2>/dev/null; then return; fi
        systemctl is-active --quiet slurmdbd || service_failed slurmdbd
        sleep 0.25
    done
    fail "slurmdbd does not answer: see /var/log/slurm/slurmdbd.log"
}
