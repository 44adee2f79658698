# The cluster is ready when the controller answers and lists every partition.
step_ready() {
    local partition listed
    wait_for_controller
    note_database
    listed=$(timeout 30 sinfo --noheader --format=%R)
    for partition in "${PARTITIONS[@]}"; do
        if ! grep -qxF -- "$partition" <<<"$listed"; then
            fail "sinfo does not list the partition $partition, only: ${listed//$'\n'/ }"
        fi
    done
}
