# Metadata and storage of this node, both in its memory: if the node is lost, both are lost together.
step_beegfs_server() {
    local mark=$BEEGFS_MEMORY/storage/generation
    # The mark is in the memory that it describes.
    if [ "$(cat "$mark" 2>/dev/null)" = "$GENERATION" ] && beegfs_serves; then return; fi
    beegfs_unmount
    beegfs_give_back
    beegfs_take meta "$BEEGFS_METADATA_GIB" "$BEEGFS_METADATA_INODES"
    beegfs_take storage "$BEEGFS_STORAGE_GIB" "$BEEGFS_STORAGE_INODES"
    # -C: our configuration names these folders already. -x: without extended attributes, which tmpfs may lack.
    /opt/beegfs/sbin/beegfs-setup-meta -p "$BEEGFS_MEMORY/meta/target" -s "$NUMBER" -C -x
    /opt/beegfs/sbin/beegfs-setup-storage -p "$BEEGFS_MEMORY/storage/target" -s "$NUMBER" -i "$NUMBER" -C
    beegfs_start beegfs-meta 8005
    beegfs_start beegfs-storage 8003
    echo "$GENERATION" >"$mark"
}

beegfs_serves() {
    systemctl is-active --quiet beegfs-meta && systemctl is-active --quiet beegfs-storage
}

# beegfs_take NAME GIB INODES: mounts this much memory. It sets a number of inodes, because without a limit BeeGFS sees none free.
beegfs_take() {
    local path=$BEEGFS_MEMORY/$1
    put_directory "$path" 0700 root:root
    mount -t tmpfs -o "size=$2g,nr_inodes=$3,mode=0700,noatime,nodev,nosuid,noexec" "beegfs-$1" "$path"
}
