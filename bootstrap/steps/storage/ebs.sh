# An EBS volume: the head node mounts it and shares it, as it does /home; the other nodes mount it from there.

# mount_ebs MOUNT
mount_ebs() {
    # shellcheck disable=SC2034 # fail_mount_with_cause reads them
    DNS_NAME=head.$ZONE PORT=$NFS_PORT VERSION=''
    if [ "$ROLE" = head ]; then
        ebs_on_head "$1"
        return
    fi
    mounted "$1" nfs4 "head.$ZONE:$1" "nfsvers=4.2,port=$NFS_PORT,noatime,hard"
}

# ebs_on_head MOUNT: now with the reason if it fails, and at each boot however long it takes: another machine may have the volume.
ebs_on_head() {
    local name unit
    name=$(note_of "$1")
    unit=/etc/systemd/system/gpucluster-disk-$name.service
    if [ -e "$MOUNTED/$name" ] && /opt/gpucluster/bin/node-program head.disks changed "$1"; then let_go "$1"; fi
    mkdir -p "$MOUNTED"
    echo "disk $1" >"$MOUNTED/$name"
    /opt/gpucluster/bin/node-program head.disks mount "$1"
    put_program bin/mount-disk
    disk_unit "$1" | put_file "$unit" 0644 root:root
    service_up "gpucluster-disk-$name" "$unit"
    # `mountpoint`: what nodes write must never go to the root disk, if the volume is not there.
    exports_of "$1" ,mountpoint | put_file "$(exports_file "$1")" 0644 root:root
    nfs_server
    exportfs -ra
}

disk_unit() {
    cat <<UNIT
[Unit]
Description=Mount the EBS volume of $1
After=network-online.target systemd-resolved.service gpucluster-volume.service
Wants=network-online.target
Before=nfs-server.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/opt/gpucluster/bin/mount-disk $1

[Install]
WantedBy=multi-user.target
UNIT
}
