# Permissions of jobs on AWS: their own role, whose credentials a service on each node renews. See
# gpucluster_node/jobs/credentials.py.
step_job_credentials() {
    node_program
    node_service credentials jobs.credentials "Serve jobs their AWS credentials"
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
