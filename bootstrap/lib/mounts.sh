# Mounts file systems now and at each boot, and notes them, so that they can be unmounted later.
readonly MOUNTED=/var/lib/gpucluster/mounts

# mounted MOUNT TYPE SOURCE OPTIONS [AT-BOOT]: AT-BOOT are options for systemd only. A failure ends with its likely cause.
mounted() {
    local mount=$1 type=$2 source=$3 options=$4 at_boot=${5:+,$5} note line
    note=$MOUNTED/$(note_of "$mount")
    line="$source $mount $type $options,_netdev,nofail$at_boot 0 0"
    mkdir -p "$mount" "$MOUNTED"
    if [ -e "$note" ] && [ "$(<"$note")" != "$line" ]; then unmount "$mount"; fi
    echo "$line" >"$note"
    put_line /etc/fstab "$line"
    if ! mountpoint -q "$mount"; then mount_patiently "$mount" "$type" "$source" "$options"; fi
}

# note_of MOUNT: the name of its note, which is its path with hyphens.
note_of() {
    local path=${1#/}
    echo "${path//\//-}"
}

# Retries for a minute, because new DNS names and rules of security groups do not work at once. A boot may take 30 minutes.
mount_patiently() {
    local mount=$1 type=$2 source=$3 options=$4 said pause
    for pause in 2 5 10 20 30 0; do
        if said=$(timeout 60 mount -t "$type" -o "$options" "$source" "$mount" 2>&1); then return; fi
        say "cannot mount $source at $mount: ${said:-no answer within 60 s}"
        sleep "$pause"
    done
    fail_mount_with_cause "$mount" "$type" "$said"
}

# fail_mount_with_cause MOUNT TYPE SAID: fails with the most likely cause. DNS_NAME and PORT: the server's.
fail_mount_with_cause() {
    local reason
    say "client kernel $(uname -r), Lustre $(lustre_version), file system ${VERSION:-of no version}"
    if ! getent hosts "$DNS_NAME" >/dev/null; then
        fail "$1: $DNS_NAME does not resolve: the VPC needs DNS support and DNS host names"
    fi
    if ! timeout 10 bash -c "exec 3<>/dev/tcp/$DNS_NAME/$PORT" 2>/dev/null; then
        fail "$1: $DNS_NAME:$PORT is closed: its security group must admit this node ($2)"
    fi
    # mount.lustre prints the reason at the end of a line, and guesses after it.
    reason=$(sed -n 's/.* failed: //p' <<<"$3" | head -n 1)
    fail "$1: $DNS_NAME: ${reason:-${3:-no answer within 60 s}}"
}

# unmount MOUNT: unmounts it, and deletes its note and its line in fstab.
unmount() {
    local note line
    note=$MOUNTED/$(note_of "$1")
    if mountpoint -q "$1"; then umount "$1" || fail "$1 is in use and cannot be unmounted: see fuser -vm $1"; fi
    line=$(<"$note")
    grep -vxF -- "$line" /etc/fstab | put_file /etc/fstab 0644 root:root
    rm -f "$note"
}

# unmount_others MOUNT...: unmounts all noted mounts except these: an earlier bundle mounted them, and this one does not.
unmount_others() {
    local note mount
    for note in "$MOUNTED"/*; do
        if [ ! -e "$note" ]; then continue; fi
        mount=$(awk '{ print $2 }' "$note")
        if [[ " $* " != *" $mount "* ]]; then let_go "$mount"; fi
    done
}

# let_go MOUNT: unmounts it, and ends what belongs to it: a tunnel, or a disk that the head node shares.
let_go() {
    if [ "$ROLE" = head ]; then close_disk "$1"; fi
    unmount "$1"
    close_tunnel "$1"
    if [ "$ROLE" = head ]; then detach_disk "$1"; fi
}

# noted_kind MOUNT: what is mounted there, as the first word of its type; nothing without a note.
noted_kind() {
    local note
    note=$MOUNTED/$(note_of "$1")
    if [ ! -e "$note" ]; then return; fi
    case $(<"$note") in
        "disk "* | "head.$ZONE:"*) echo ebs ;;
        127.0.0.1:*) echo efs ;;
        *" lustre "*) echo fsx ;;
        *) echo nfs ;;
    esac
}
