# Mounts the file system of JOB_LUSTRE_NAME: `head.sh job_lustre NAME` after its creation, `compute.sh job_lustre NAME` in the
# prolog of a job. It is not added to fstab, because at the next boot it may not exist.
step_job_lustre_mount() {
    local mount lustre_name for_everybody told
    if [ "$ROLE" = head ]; then
        mount=$JOB_LUSTRE_AT
        DNS_NAME=$(lustre_state dns_name)
        lustre_name=$(lustre_state mount_name)
        # shellcheck disable=SC2034 # fail_mount_with_cause reads VERSION and PORT
        VERSION=$(lustre_state version)
    else
        mapfile -t told <"$JOB_LUSTRE/$JOB_LUSTRE_NAME/mounts/${SLURM_JOB_ID:?}"
        # shellcheck disable=SC2034
        mount=${told[0]} DNS_NAME=${told[1]} lustre_name=${told[2]} VERSION=${told[3]}
        # First, so that the epilog of another job leaves it mounted.
        put_file "$LUSTRE_MARKS/$JOB_LUSTRE_NAME/${SLURM_JOB_ID:?}" 0644 root:root <<<"$mount"
    fi
    mkdir -p "$mount"
    if ! mountpoint -q "$mount"; then
        # shellcheck disable=SC2034
        PORT=988
        mount_patiently "$mount" lustre "$DNS_NAME@tcp:/$lustre_name" noatime,flock
    fi
    timeout 60 df --output=size "$mount" >/dev/null || fail "$mount is mounted, and its servers do not answer: $DNS_NAME"
    if [ "$ROLE" = head ]; then
        for_everybody=$(lustre_state for_everybody)
        open_to_everybody "$mount" "$for_everybody"
    fi
    say "$mount is mounted from $DNS_NAME"
}

# lustre_state KEY: a value of the file that the head node wrote about it.
lustre_state() {
    json_value "$(<"$JOB_LUSTRE/$JOB_LUSTRE_NAME/state.json")" "$1"
}
