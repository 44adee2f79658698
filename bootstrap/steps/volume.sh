# The data volume holds /home: it outlives the head node, which takes it from the one before.
step_volume() {
    local volume link
    volume=$(parameter head volume_id)
    link=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${volume/-/}
    node_program
    attach_at_boot
    wait_for_device "$link"
    if ! mountpoint -q /home; then
        format_if_blank "$link"
        keep_users "$link"
        mount -o noatime "$link" /home
    fi
    fill_device "$link"
    put_mount "$link" /home ext4 \
        noatime,nofail,_netdev,x-systemd.requires=gpucluster-volume.service,x-systemd.device-timeout=15min
    put_directory /home/gpucluster 0755 root:root
    inherit_at_boot
}

# At each boot: after a failed update a head node finds its volume with the one that was to replace it.
attach_at_boot() {
    local unit=/etc/systemd/system/gpucluster-volume.service
    put_file "$unit" 0644 root:root <<'EOF'
[Unit]
Description=Attach the data volume
After=network-online.target systemd-resolved.service
Wants=network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/opt/gpucluster/bin/node-program volume attach
TimeoutStartSec=1000

[Install]
WantedBy=multi-user.target
EOF
    service_up gpucluster-volume "$unit"
}

# Compute nodes that mounted /home from another head node wait for it for ever.
inherit_at_boot() {
    local unit=/etc/systemd/system/gpucluster-inherit.service
    put_file "$unit" 0644 root:root <<'EOF'
[Unit]
Description=End the compute nodes of the head node before
RequiresMountsFor=/home/gpucluster
After=network-online.target systemd-resolved.service
Wants=network-online.target
Before=slurmctld.service nfs-server.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/opt/gpucluster/bin/node-program volume inherit

[Install]
WantedBy=multi-user.target
EOF
    service_up gpucluster-inherit "$unit"
}

# A volume that has just been attached or enlarged takes a moment to show.
wait_for_device() {
    for _ in {1..300}; do
        if [ -b "$1" ] && [ "$(blockdev --getsize64 "$1")" -ge $((VOLUME_GIB << 30)) ]; then return; fi
        sleep 1
    done
    fail "the data volume did not appear as $1 with $VOLUME_GIB GiB within 300 s"
}

# blkid -p reads the device itself; 2 means that nothing it knows is there.
format_if_blank() {
    local status=0
    blkid -p "$1" >/dev/null || status=$?
    if [ "$status" -eq 2 ]; then mkfs.ext4 -q -m 1 "$1"; fi
}

# The image's home directories move to a new volume: mounting over them would hide the login user's.
keep_users() {
    local scratch
    scratch=$(mktemp -d)
    mount "$1" "$scratch"
    cp -an /home/. "$scratch/"
    umount "$scratch"
    rmdir "$scratch"
}

# fill_device DEVICE: the mounted file system is as large as the device.
fill_device() {
    local said
    said=$(resize2fs "$1" 2>&1) || fail "$said"
}
