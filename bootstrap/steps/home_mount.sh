# Compute nodes mount the head's /home.
step_home_mount() {
    local options=nfsvers=4.2,noatime,hard,_netdev
    put_line /etc/fstab "head.$ZONE:/home /home nfs4 $options,nofail 0 0"
    if ! mountpoint -q /home; then mount -t nfs4 -o "$options" "head.$ZONE:/home" /home; fi
}
