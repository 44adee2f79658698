# FSx for Lustre: how nodes mount it. Its client is of the steps lustre_client and lustre_efa, which come first.

# mount_fsx MOUNT LUSTRE-NAME: of the file system DNS_NAME.
mount_fsx() {
    # shellcheck disable=SC2034 # mount_verdict reads it
    PORT=988
    if [ -e "$LUSTRE_MISSING" ]; then
        say "$1 is not mounted here: $(<"$LUSTRE_MISSING")"
        return
    fi
    mounted "$1" lustre "$DNS_NAME@tcp:/$2" noatime,flock
}

# What an image takes along for it.
client_fsx() { lustre_client; }

client_fsx_efa() {
    if [ ! -e "$LUSTRE_EFA/setup.sh" ]; then download_lustre_efa; fi
}
