# Lustre file systems with `lifetime: jobs`. The head node creates and deletes them, see gpucluster_node/lustre/for_jobs.py. A
# node mounts one before a job that uses it, and unmounts it after the last such job.
step_job_lustre() {
    if [ "$ROLE" = head ]; then
        job_lustre_service
        return
    fi
    # On every node, because `up` may add such a file system while nodes run.
    put_file /opt/gpucluster/prolog.d/11-job-lustre 0755 root:root <<SCRIPT
#!/bin/bash
# The head node writes it for each job that uses one.
for file in $JOB_LUSTRE/*/mounts/"\$SLURM_JOB_ID"; do
    if [ ! -e "\$file" ]; then continue; fi
    name=\${file#$JOB_LUSTRE/}
    bash /opt/gpucluster/bundle/compute.sh job_lustre "\${name%%/*}" >>/var/log/gpucluster/boot.log 2>&1 || exit
done
SCRIPT
    put_file /opt/gpucluster/epilog.d/90-job-lustre 0755 root:root <<SCRIPT
#!/bin/bash
# Flushes the job's data to the servers first. It unmounts by force only if they do not answer: waiting for them for ever must not
# block this node.
let_go() {
    timeout --kill-after=5 600 sync --file-system "\$1"
    umount "\$1" && return
    if timeout --kill-after=5 60 df "\$1" >/dev/null; then umount --lazy "\$1"; else umount --force --lazy "\$1"; fi
}
# Not while a job's prolog mounts it.
exec 9>/run/gpucluster.lock
flock 9
for mark in $LUSTRE_MARKS/*/"\$SLURM_JOB_ID"; do
    if [ ! -e "\$mark" ]; then continue; fi
    mount=\$(<"\$mark")
    rm -f "\$mark"
    # Other jobs of this node still use it.
    if ! rmdir "\${mark%/*}" 2>/dev/null; then continue; fi
    let_go "\$mount" 9>&- &
    for ((half_seconds = 0; half_seconds < 1500; half_seconds++)); do
        kill -0 \$! 2>/dev/null || continue 2
        sleep 0.5
    done
    echo "\$mount stays mounted"
done
exit 0
SCRIPT
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
