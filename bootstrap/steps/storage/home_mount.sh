# Mounts /home: the head node's export, or a file system on EFS or FSx.
step_home_mount() {
    local options
    if [ "$HOME_ON" != head-nfs ]; then
        case "$HOME_ON" in
            fsx-openzfs | fsx-ontap) home_on_file_system nfs ;;
            *) home_on_file_system "${HOME_ON%%-*}" ;;
        esac
        return
    fi
    if [ "$ROLE" = head ]; then return; fi
    options=nfsvers=4.2,port=$NFS_PORT,noatime,hard,_netdev
    put_line /etc/fstab "head.$ZONE:/home /home nfs4 $options,nofail 0 0"
    if ! mountpoint -q /home; then mount -t nfs4 -o "$options" "head.$ZONE:/home" /home; fi
}

# home_on_file_system WORD: the first word of its type, as in mount_storage.
home_on_file_system() {
    local name=''
    find_home "$1"
    # shellcheck source=/dev/null
    source "$BUNDLE/steps/storage/$1.sh"
    if [ "$HOME_ON" = fsx-lustre ]; then lustre_client; fi
    "source_$1" /home "$name"
    if [ "$ROLE" = head ] && ! mountpoint -q /home; then move_users; fi
    mounted /home "$FS_TYPE" "$FS_SOURCE" "$FS_OPTIONS" "$FS_AT_BOOT"
    if ! put_directory /home/gpucluster 0755 root:root; then
        fail "/home: $DNS_NAME squashes root, who makes home directories: it needs no_root_squash"
    fi
}

# find_home WORD: sets DNS_NAME, name and VERSION.
find_home() {
    local found
    if [ "$1" = efs ]; then
        DNS_NAME=$(parameter storage/home dns_name)
        return
    fi
    found=$(PYTHONPATH=$BUNDLE python3 -S -B -m gpucluster_node.addresses home)
    # shellcheck disable=SC2034 # mount and fail_mount_with_cause read them
    IFS=$'\t' read -r DNS_NAME name VERSION <<<"$found"
}

# Moves the image's home directories there, because a mount over them would hide the login user's. Existing files stay.
move_users() {
    local aside directory
    aside=$(mktemp -d)
    mount_patiently "$aside" "$FS_TYPE" "$FS_SOURCE" "$FS_OPTIONS"
    for directory in /home/*; do
        if [ ! -e "$aside/${directory##*/}" ]; then cp -a "$directory" "$aside/"; fi
    done
    umount "$aside"
    rmdir "$aside"
}
