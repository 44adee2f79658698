# The data volume holds /home: it outlives the head node.
step_volume() {
    local volume link
    volume=$(parameter head volume_id)
    link=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${volume/-/}
    wait_for_device "$link"
    if ! mountpoint -q /home; then
        format_if_blank "$link"
        keep_users "$link"
        mount -o noatime "$link" /home
    fi
    put_line /etc/fstab "$link /home ext4 noatime,nofail 0 2"
    put_directory /home/gpucluster 0755 root:root
}

# The volume is attached while the machine boots.
wait_for_device() {
    for _ in {1..300}; do
        if [ -b "$1" ]; then return; fi
        sleep 1
    done
    fail "the data volume did not appear as $1 within 300 s"
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
