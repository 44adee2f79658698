# Services of BeeGFS, started and stopped by hand: none may start by itself at a reboot, which empties the memory.

# beegfs_start UNIT PORT: starts it anew, and waits until it listens.
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

# beegfs_stop UNIT...: those that are there, and switched off, as their packages do not leave them.
beegfs_stop() {
    local unit
    for unit; do
        if ! systemctl cat "$unit.service" >/dev/null 2>&1; then continue; fi
        if systemctl is-enabled --quiet "$unit"; then systemctl --quiet disable "$unit"; fi
        systemctl stop "$unit"
    done
}
