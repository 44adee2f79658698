# The client, which mounts the file system on this machine.
step_beegfs_client() {
    local unit
    if mountpoint -q "$BEEGFS_MOUNT" && [ "$(cat "$CLIENT_GENERATION" 2>/dev/null)" = "$GENERATION" ]; then return; fi
    beegfs_unmount
    mkdir -p "$BEEGFS_MOUNT"
    for unit in "${BEEGFS_CLIENT_SERVICES[@]}"; do
        systemctl restart "$unit" || service_failed "$unit"
    done
    mountpoint -q "$BEEGFS_MOUNT" || fail "beegfs-client runs, but $BEEGFS_MOUNT is not mounted: see journalctl -u beegfs-client"
    # Every job's user may write there.
    put_mode "$BEEGFS_MOUNT" 1777 root:root
    echo "$GENERATION" >"$CLIENT_GENERATION"
}
