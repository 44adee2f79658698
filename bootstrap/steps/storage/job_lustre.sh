# Lustre file systems with `lifetime: jobs`. The head node creates and deletes them, see gpucluster_node/lustre/for_jobs.py. A
# node mounts one before a job that uses it, and unmounts it after the last such job.
step_job_lustre() {
    if [ "$ROLE" = head ]; then
        job_lustre_service
        return
    fi
    # On every node, because `up` may add such a file system while nodes run.
    put_program prolog.d/11-job-lustre
    put_program epilog.d/90-job-lustre
}

job_lustre_service() {
    if ! storage_has '"lifetime": "jobs"'; then
        service_down gpucluster-job_lustre
        return
    fi
    put_directory "$JOB_LUSTRE" 0755 root:root
    node_program
    node_service job_lustre lustre.for_jobs "Create and delete the Lustre file systems of jobs" "$BUNDLE/storage.json"
}
