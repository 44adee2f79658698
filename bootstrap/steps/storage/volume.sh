# The data volume has Slurm's state and accounting database, and /home unless it is on EFS. It outlives the head node; a new head
# node takes it from the old one. VOLUME is its mount point, DATA the cluster's own directory there.
step_volume() {
    local id link
    id=$(parameter head volume_id)
    link=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${id/-/}
    node_program
    attach "$link"
    wait_for_device "$link"
    if ! mountpoint -q "$VOLUME"; then
        format_if_blank "$link"
        if [ "$VOLUME" = /home ]; then keep_users "$link"; fi
    fi
    mkdir -p "$VOLUME"
    mount_at_boot "$link"
    fill_device "$link"
    refuse_other_layout
    put_directory "$DATA" 0755 root:root
    inherit_at_boot
}

# attach DEVICE: now, and at each boot: after a failed update, the volume may be attached to the head node that was to replace this
# one. Now it ends with the cause if it fails: the deployment waits.
attach() {
    if ! systemctl is-active --quiet gpucluster-volume; then /opt/gpucluster/bin/node-program head.volume attach "$1"; fi
    put_program bin/attach-volume
    boot_task gpucluster-volume "Attach the data volume" "/opt/gpucluster/bin/attach-volume $1" <<'UNIT'
After=network-online.target systemd-resolved.service
Wants=network-online.target
UNIT
}

# mount_at_boot DEVICE
mount_at_boot() {
    put_program bin/mount-home
    boot_task gpucluster-home "Mount $VOLUME" "/opt/gpucluster/bin/mount-home $1 $VOLUME" <<'UNIT'
Requires=gpucluster-volume.service
After=gpucluster-volume.service
UNIT
}

# The new head node reads what the old one published and wrote; its own values must replace them.
inherit_at_boot() {
    boot_task gpucluster-inherit "Note which head node has the data volume" \
        "/opt/gpucluster/bin/node-program head.volume inherit" <<'UNIT'
Requires=gpucluster-home.service
After=gpucluster-home.service
Before=slurmctld.service nfs-server.service
UNIT
}

# boot_task NAME DESCRIPTION COMMAND <DEPENDENCIES: a unit that runs the command at each boot, and now. systemd waits for it without
# limit (TimeoutStartSec in systemd.service(5): not for oneshot); run_step limits it now.
boot_task() {
    local unit=/etc/systemd/system/$1.service
    put_file "$unit" 0644 root:root <<UNIT
[Unit]
Description=$2
$(cat)

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$3

[Install]
WantedBy=multi-user.target
UNIT
    service_up "$1" "$unit"
}

# A volume that was just attached or enlarged takes a moment to appear.
wait_for_device() {
    for _ in {1..300}; do
        if [ -b "$1" ] && [ "$(blockdev --getsize64 "$1")" -ge $((VOLUME_GIB << 30)) ]; then return; fi
        sleep 1
    done
    fail "the data volume did not appear as $1 with $VOLUME_GIB GiB within 300 s"
}

# blkid -p reads the device itself; 2 means that it found no known content.
format_if_blank() {
    local status=0
    blkid -p "$1" >/dev/null || status=$?
    if [ "$status" -eq 2 ]; then mkfs.ext4 -q -m 1 "$1"; fi
}

# Moves the image's home directories to a new volume, because a mount over them would hide the login user's.
keep_users() {
    local scratch
    scratch=$(mktemp -d)
    mount "$1" "$scratch"
    cp -an /home/. "$scratch/"
    umount "$scratch"
    rmdir "$scratch"
}

# A snapshot of a cluster that had /home elsewhere: Slurm would begin with an empty queue, and nobody would see why.
refuse_other_layout() {
    local other=$VOLUME/slurm-state
    if [ "$DATA" = "$VOLUME" ]; then other=$VOLUME/gpucluster/slurm-state; fi
    if [ -e "$other" ]; then
        fail "the data volume has Slurm's state in $other, not in $DATA/slurm-state: restore it into a cluster that has /home \
on the same storage as the old one, the volume or EFS"
    fi
}

# fill_device DEVICE: enlarges the mounted file system to the device's size.
fill_device() {
    resize2fs "$1" >/dev/null
}
