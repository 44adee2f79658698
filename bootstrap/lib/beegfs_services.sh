# Starts and stops the services of BeeGFS. None may start at a reboot, because the memory is then empty.
readonly CLIENT_GENERATION=/run/gpucluster-beegfs BEEGFS_MEMORY=/mnt/beegfs

# beegfs_start UNIT PORT: restarts it, and waits until it listens.
beegfs_start() {
    if systemctl is-enabled --quiet "$1" 2>/dev/null; then systemctl --quiet disable "$1"; fi
    systemctl restart "$1" || service_failed "$1"
    for _ in {1..60}; do
        if [ -n "$(ss -Hltn "sport = :$2")" ]; then return; fi
        systemctl is-active --quiet "$1" || service_failed "$1"
        sleep 0.5
    done
    service_failed "$1"
}

# beegfs_stop UNIT...: stops and disables those that exist; their packages enable them.
beegfs_stop() {
    local unit
    for unit; do
        if ! systemctl cat "$unit.service" >/dev/null 2>&1; then continue; fi
        if systemctl is-enabled --quiet "$unit"; then systemctl --quiet disable "$unit"; fi
        systemctl stop "$unit"
    done
}

# Programs with open files there prevent an orderly unmount; they get errors, not another file system's data.
beegfs_unmount() {
    if mountpoint -q "$BEEGFS_MOUNT"; then timeout 30 umount "$BEEGFS_MOUNT" || umount --lazy "$BEEGFS_MOUNT"; fi
    beegfs_stop beegfs-client beegfs-helperd
    rm -f "$CLIENT_GENERATION"
}

beegfs_give_back() {
    local name
    beegfs_stop beegfs-storage beegfs-meta
    for name in storage meta; do
        while mountpoint -q "$BEEGFS_MEMORY/$name"; do umount "$BEEGFS_MEMORY/$name" || return; done
    done
}

# Prints a line for each registered service: meta 3, storage 3.
beegfs_list() {
    local kind
    for kind in meta storage; do
        "beegfs_list_${BEEGFS_VERSION%%.*}" "$kind" | sed -n "s/^/$kind /p"
    done
}

# beegfs-ctl prints train-3 [ID: 3]
beegfs_list_7() {
    "${BEEGFS_LIST_SERVERS[@]/%--nodetype=/--nodetype=$1}" | sed -n 's/.*\[ID: \([0-9]*\)\].*/\1/p'
}

# beegfs prints s:3 storage node_storage_3, in columns
beegfs_list_8() {
    "${BEEGFS_LIST_SERVERS[@]/%--node-type=/--node-type=$1}" --mgmtd-addr "$MANAGEMENT:8010" |
        sed -n 's/^ *[ms]:\([0-9]*\) .*/\1/p'
}
