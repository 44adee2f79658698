# Lustre file systems that exist while jobs use them. The head makes and deletes them, see gpucluster_node/job_lustre.py; a
# node mounts one before a job that uses it, and lets go of it after the last of those.
readonly JOB_LUSTRE=/home/gpucluster/lustre LUSTRE_MARKS=/run/gpucluster-lustre

step_job_lustre() {
    local programs=(/opt/gpucluster/prolog.d/11-job-lustre /opt/gpucluster/epilog.d/90-job-lustre)
    if ! storage_has '"lifetime": "jobs"'; then
        service_down gpucluster-job_lustre
        rm -f "${programs[@]}"
        return
    fi
    if [ "$ROLE" = head ]; then
        put_directory "$JOB_LUSTRE" 0755 root:root
        node_program
        node_service job_lustre "Make and delete the Lustre file systems of jobs" "$BUNDLE/storage.json"
        return
    fi
    put_file "${programs[0]}" 0755 root:root <<SCRIPT
#!/bin/bash
# The head lays it there for each job that uses one.
for file in $JOB_LUSTRE/*/mounts/"\$SLURM_JOB_ID"; do
    if [ ! -e "\$file" ]; then continue; fi
    name=\${file#$JOB_LUSTRE/}
    bash /opt/gpucluster/bundle/compute.sh job_lustre "\${name%%/*}" >>/var/log/gpucluster/boot.log 2>&1 || exit
done
SCRIPT
    put_file "${programs[1]}" 0755 root:root <<SCRIPT
#!/bin/bash
# Not while a job's prolog mounts it.
exec 9>/run/gpucluster.lock
flock 9
for mark in $LUSTRE_MARKS/*/"\$SLURM_JOB_ID"; do
    if [ ! -e "\$mark" ]; then continue; fi
    mount=\$(<"\$mark")
    rm -f "\$mark"
    # Other jobs of this node still use it.
    if ! rmdir "\${mark%/*}" 2>/dev/null; then continue; fi
    timeout 60 umount "\$mount" || umount --force --lazy "\$mount" || echo "\$mount stays mounted"
done
SCRIPT
}
