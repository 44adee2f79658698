# FSx for Lustre: how nodes mount it. The steps lustre_client and lustre_efa install its client before.

# mount_fsx MOUNT LUSTRE-NAME: mounts the file system DNS_NAME.
mount_fsx() {
    # shellcheck disable=SC2034 # fail_mount_with_cause reads it
    PORT=988
    if [ -e "$LUSTRE_MISSING" ]; then
        say "$1 is not mounted here: $(<"$LUSTRE_MISSING")"
        return
    fi
    mounted "$1" lustre "$DNS_NAME@tcp:/$2" noatime,flock
}

# Packages for an image.
client_fsx() { lustre_client; }

client_fsx_efa() {
    if [ ! -e "$LUSTRE_EFA/setup.sh" ]; then download_lustre_efa; fi
}
