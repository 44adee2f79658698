# Programs that Slurm runs on a node, as root, before and after a job. Other steps put them into these two folders.
readonly HOOKS=/opt/gpucluster

step_job_hooks() {
    put_directory "$HOOKS/prolog.d" 0755 root:root
    put_directory "$HOOKS/epilog.d" 0755 root:root
    job_hook prolog
    job_hook epilog
}

# job_hook NAME: runs all programs of the folder, in the order of their names. If one fails, Slurm drains the node and requeues
# its job. Slurm sets no PATH.
job_hook() {
    put_file "$HOOKS/bin/$1" 0755 root:root <<HOOK
#!/bin/bash
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
exec >>/var/log/gpucluster/power.log 2>&1
status=0
for program in $HOOKS/$1.d/*; do
    if [ -x "\$program" ] && ! "\$program"; then
        echo "\$(date -u +%FT%TZ) \$program of job \${SLURM_JOB_ID:-?} failed"
        status=1
    fi
done
exit "\$status"
HOOK
}
