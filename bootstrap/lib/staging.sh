# put_staging: what Slurm moves jobs' data with, where the cluster has a file system that is linked to S3. slurmctld runs as
# slurm; archiving is root's, so the program goes through sudo.
put_staging() {
    local etc=/etc/slurm file sudoers=/etc/sudoers.d/gpucluster-staging
    local drop_in=/etc/systemd/system/slurmctld.service.d/gpucluster-staging.conf
    if [ ! -e "$BUNDLE/slurm/burst_buffer.lua" ]; then
        rm -f $etc/burst_buffer.{conf,lua} "$sudoers" "$drop_in"
        return
    fi
    for file in burst_buffer.conf burst_buffer.lua; do
        put_file "$etc/$file" 0644 root:root <"$BUNDLE/slurm/$file"
    done
    put_file "$sudoers" 0440 root:root <<'SUDOERS'
slurm ALL=(root) NOPASSWD: /opt/gpucluster/bin/node-program lustre.staging data-in *, /opt/gpucluster/bin/node-program lustre.staging data-out *, /opt/gpucluster/bin/node-program lustre.staging teardown *
SUDOERS
    # slurmctld ends its stages itself when it restarts, and begins them anew. By systemd's hand they would have failed, and
    # their jobs would be held.
    put_file "$drop_in" 0644 root:root <<'UNIT'
[Service]
KillMode=mixed
UNIT
    touch_log /var/log/gpucluster/staging.log
}
