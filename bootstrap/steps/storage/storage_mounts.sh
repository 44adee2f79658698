# Mounts the cluster's file systems on FSx and EFS. Only Parameter Store knows their addresses: the head node asks it, and writes
# the answer to /home, where compute nodes read it.
step_storage_mounts() {
    local file lines='' mounts
    if [ "$ROLE" = compute ] && [ ! -e "$STORAGE" ]; then return; fi
    node_program
    file=$(storage_file)
    if grep -q '"mount":' "$file"; then lines=$(/opt/gpucluster/bin/node-program storage table <"$file"); fi
    mapfile -t mounts < <(cut -f1 <<<"$lines")
    unmount_others "${mounts[@]}" /home
    # shellcheck disable=SC2034 # fail_mount_with_cause reads VERSION and PORT
    while IFS=$'\t' read -r -u 3 mount type DNS_NAME lustre_name _ VERSION for_everybody; do
        if [ -z "$mount" ] || [ "$mount" = /home ]; then continue; fi
        mount_storage "$mount" "${type%%-*}" "$lustre_name"
        if [ "$ROLE" = head ] && mountpoint -q "$mount"; then open_to_everybody "$mount" "$for_everybody"; fi
    done 3<<<"$lines"
    if [ "$ROLE" = head ]; then put_file "$STORAGE" 0644 root:root <"$file"; fi
    put_file /var/lib/gpucluster/storage.json 0644 root:root <"$file"
    mount_before_jobs "${mounts[@]}"
}

# storage_file: the path of the list of mounts.
storage_file() {
    local found=/var/lib/gpucluster/storage.found
    if [ "$ROLE" = compute ]; then
        echo "$STORAGE"
        return
    fi
    mkdir -p "${found%/*}"
    if storage_has '"mount":'; then
        /opt/gpucluster/bin/node-program storage resolve >"$found"
    else
        cat "$BUNDLE/storage.json" >"$found"
    fi
    echo "$found"
}

# mount_storage MOUNT WORD NAME: WORD is the first word of its type. It names the file and the function that mount it.
mount_storage() {
    local now
    now=$(noted_kind "$1")
    if [ -n "$now" ] && [ "$now" != "$2" ]; then let_go "$1"; fi # the entry has another type than before
    # shellcheck source=/dev/null
    source "$BUNDLE/steps/storage/$2.sh"
    "mount_$2" "$1" "$3"
    if ! mountpoint -q "$1"; then return; fi # the function has printed the reason
    timeout 60 df --output=size "$1" >/dev/null || fail "$1 is mounted, and its servers do not answer: $DNS_NAME"
    say "$1 is mounted from $DNS_NAME"
}

# mount_before_jobs MOUNT...: installs what Slurm runs before each job, and the list of mounts that it looks for.
mount_before_jobs() {
    if [ "$ROLE" != compute ]; then return; fi
    put_file /var/lib/gpucluster/storage.mounts 0644 root:root <<<"$*"
    put_program prolog.d/10-storage
}
