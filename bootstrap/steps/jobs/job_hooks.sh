# Programs that Slurm runs on a node, as root, before and after a job. Other steps put them into these two folders.
step_job_hooks() {
    put_directory /opt/gpucluster/prolog.d 0755 root:root
    put_directory /opt/gpucluster/epilog.d 0755 root:root
    put_program bin/job-hooks
    put_program bin/prolog
    put_program bin/epilog
}
