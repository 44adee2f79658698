# put_staging: Slurm's burst buffer, which moves jobs' data, if a file system of the cluster is linked to S3. slurmctld runs as
# slurm and only root may archive, so the program uses sudo.
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
    # slurmctld ends its stages when it restarts, and starts them again. If systemd ended them, they would have failed, and their
    # jobs would be held.
    put_file "$drop_in" 0644 root:root <<'UNIT'
[Service]
KillMode=mixed
UNIT
    touch_log /var/log/gpucluster/staging.log
}
