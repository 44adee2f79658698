# FSx for Lustre: how nodes mount it. The steps lustre_client and lustre_efa install its client before.

# mount_fsx MOUNT LUSTRE-NAME: mounts the file system DNS_NAME.
mount_fsx() {
    if [ -e "$LUSTRE_MISSING" ]; then
        say "$1 is not mounted here: $(<"$LUSTRE_MISSING")"
        return
    fi
    source_fsx "$1" "$2"
    mounted "$1" "$FS_TYPE" "$FS_SOURCE" "$FS_OPTIONS"
}

# source_fsx MOUNT LUSTRE-NAME: sets what mount needs.
source_fsx() {
    # shellcheck disable=SC2034 # the caller and fail_mount_with_cause read them
    PORT=988 FS_TYPE=lustre FS_SOURCE=$DNS_NAME@tcp:/$2 FS_OPTIONS=noatime,flock FS_AT_BOOT=''
}

# Packages for an image.
client_fsx() { lustre_client; }

client_fsx_efa() {
    if [ ! -e "$LUSTRE_EFA/setup.sh" ]; then download_lustre_efa; fi
}
