# Mounts /home: the head node's export, or a file system on EFS.
step_home_mount() {
    local options
    if [ "$HOME_ON" = efs ]; then
        home_on_efs
        return
    fi
    if [ "$ROLE" = head ]; then return; fi
    options=nfsvers=4.2,port=$NFS_PORT,noatime,hard,_netdev
    put_line /etc/fstab "head.$ZONE:/home /home nfs4 $options,nofail 0 0"
    if ! mountpoint -q /home; then mount -t nfs4 -o "$options" "head.$ZONE:/home" /home; fi
}

home_on_efs() {
    # shellcheck disable=SC2034 # mount_efs reads it
    DNS_NAME=$(parameter storage/home dns_name)
    if [ "$ROLE" = head ] && ! mountpoint -q /home; then users_to_efs; fi
    mount_efs /home
    put_directory /home/gpucluster 0755 root:root
}

# Moves the image's home directories there, because a mount over them would hide the login user's. Existing files stay.
users_to_efs() {
    local aside directory
    aside=$(mktemp -d)
    efs_ready /home
    mount_patiently "$aside" nfs4 127.0.0.1:/ "$EFS_OPTIONS"
    for directory in /home/*; do
        if [ ! -e "$aside/${directory##*/}" ]; then cp -a "$directory" "$aside/"; fi
    done
    umount "$aside"
    rmdir "$aside"
}
