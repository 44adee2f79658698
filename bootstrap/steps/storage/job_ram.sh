# A file system in the memory of a job's nodes: the programs that create it for a job, and delete it with the job.
step_job_ram() {
    local bin=/opt/gpucluster/bin
    this_partition
    if [ "$BEEGFS_ROLE" != job ]; then return; fi
    node_program
    put_program bin/job-ram
    # Services and mounts need root, which Slurm's epilog has.
    put_file /etc/sudoers.d/gpucluster-ram 0440 root:root <<EOF
$JOB_USER ALL=(root) NOPASSWD: $bin/job-ram serve *, $bin/job-ram mount
EOF
    put_program epilog.d/50-job-ram
}
