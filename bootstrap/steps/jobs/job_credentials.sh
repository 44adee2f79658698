# Permissions of jobs on AWS: their own role, whose credentials a service on each node renews. See
# gpucluster_node/jobs/credentials.py.
readonly JOB_CREDENTIALS_PORT=127.0.0.1:9911

step_job_credentials() {
    local unit=/etc/systemd/system/gpucluster-credentials.service
    node_program
    node_unit credentials jobs.credentials "Serve jobs their AWS credentials"
    keep_port credentials "$JOB_CREDENTIALS_PORT"
    service_up gpucluster-credentials "$unit"
    if [ "$ROLE" = head ]; then shell_credentials; fi
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
