# slurmctld. Its state is on the data volume; compute nodes fetch every file from it (configless).
step_slurm_head() {
    local etc=/etc/slurm running
    put_directory "$DATA/slurm-state" 0700 slurm:slurm
    put_directory /var/log/slurm 0755 slurm:slurm
    put_file $etc/slurm.conf 0644 root:root <"$BUNDLE/slurm/slurm.conf"
    put_file $etc/gres.conf 0644 root:root <"$BUNDLE/slurm/gres.conf"
    put_topology
    put_plugstack
    put_cgroup_conf
    power_programs
    put_staging
    slurm_limits slurmctld
    low_port slurmctld
    starts_again slurmctld
    needs_home slurmctld
    running=$(systemctl is-active slurmctld || true)
    service_up slurmctld $etc/{slurm,gres,image,cgroup,plugstack}.conf $etc/burst_buffer.{conf,lua} /etc/munge/munge.key \
        /etc/systemd/system/slurmctld.service.d/gpucluster-{limits,port,restart,staging}.conf
    # Running nodes get new files only by a reconfiguration.
    if [ "$running $RESTARTED" = "active yes" ]; then reconfigure || reconfigure; fi
}

# reconcile replaces all lines but the first, which lists the cluster's nodes.
put_topology() {
    local source=$BUNDLE/slurm/topology.conf path=/etc/slurm/topology.conf
    if [ ! -e "$source" ]; then
        rm -f "$path"
    elif [ ! -e "$path" ] || [ "$(head -n 1 "$path")" != "$(head -n 1 "$source")" ]; then
        put_file "$path" 0644 root:root <"$source"
    fi
}

# An image without control groups has its own image-cgroup.conf.
put_cgroup_conf() {
    local source=$BUNDLE/slurm/cgroup.conf
    if [ -e /etc/slurm/image-cgroup.conf ]; then source=/etc/slurm/image-cgroup.conf; fi
    put_file /etc/slurm/cgroup.conf 0644 root:root <"$source"
}

# Slurm's package has a plugstack.conf with a folder that nodes do not get. Ours replaces it if there is a plug-in.
put_plugstack() {
    local path=/etc/slurm/plugstack.conf
    if grep -q '^optional' "$BUNDLE/slurm/plugstack.conf" || grep -qs '^# written by GpuCluster' "$path"; then
        put_file "$path" 0644 root:root <"$BUNDLE/slurm/plugstack.conf"
    fi
}
