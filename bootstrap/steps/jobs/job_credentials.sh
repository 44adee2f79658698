# Permissions of jobs on AWS: their own role, whose credentials a service on each node renews. See
# gpucluster_node/jobs/credentials.py.
readonly JOB_CREDENTIALS_PORT=127.0.0.1:9911

step_job_credentials() {
    local unit=/etc/systemd/system/gpucluster-credentials.service
    node_program
    node_unit credentials jobs.credentials "Serve jobs their AWS credentials"
    keep_port credentials "$JOB_CREDENTIALS_PORT"
    service_up gpucluster-credentials "$unit"
    if [ "$ROLE" = head ]; then
        mark_role
        shell_credentials
    fi
}

# All nodes read this mark (gpucluster_node/jobs/role.py). A role that `up` has deleted and created again is another one, whatever its
# name: AWS refuses the credentials of the first.
mark_role() {
    local mark=/home/gpucluster/job-role
    if [ -z "$JOB_CREDENTIALS" ]; then
        rm -f "$mark"
    elif [ ! -e "$mark" ]; then
        put_file "$mark" 0644 root:root </proc/sys/kernel/random/uuid
    fi
}

# For users' shells on the head node, and for jobs that they submit there by hand. `gpucluster submit` sets this for its jobs.
shell_credentials() {
    local profile=/etc/profile.d/gpucluster-credentials.sh
    if [ -z "$JOB_CREDENTIALS" ]; then
        rm -f "$profile"
        return
    fi
    put_file "$profile" 0644 root:root <"$BUNDLE/programs/profile.d/gpucluster-credentials.sh"
}
