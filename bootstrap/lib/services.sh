# Starts services only if necessary: running a role twice restarts nothing.

readonly UNITS=/etc/systemd/system STARTED=/var/lib/gpucluster/started
readonly RELOADED=$STARTED/reload

# service_up UNIT FILE...: enables and starts UNIT, and restarts it if a FILE has changed since its start. It compares a stamp
# instead of the unit's start time, so that a run that ended between writing and restarting is completed. Sets RESTARTED to yes or
# no.
service_up() {
    local unit=$1 stamp=$STARTED/$1 file
    shift
    RESTARTED=no
    systemctl is-active --quiet "$unit" || RESTARTED=yes
    for file in "$@"; do
        if [ "$file" -nt "$stamp" ]; then RESTARTED=yes; fi
    done
    if [ "$RESTARTED" = no ]; then return; fi
    # Before anything loads the unit: systemd keeps what it then shows as `enabled` or `disabled`.
    systemctl is-enabled --quiet "$unit" || enable_at_boot "$unit"
    if outdated "$unit" "$@"; then reload_systemd; fi
    mkdir -p "$STARTED"
    touch "$stamp"
    systemctl restart "$unit" || starts_later "$unit" || service_failed "$unit"
}

# starts_later UNIT: whether systemd starts it again within 30 s, if it does that. slurmd's first start with cgroup v2 may fail because
# systemd is slow on a busy boot (SchedMD's bug 19157, fixed in 24.05), and the second works.
starts_later() {
    if [ "$(systemctl show --property=Restart --value "$1")" != always ]; then return 1; fi
    for _ in {1..30}; do
        if systemctl is-active --quiet "$1"; then return; fi
        sleep 1
    done
    return 1
}

# outdated UNIT FILE...: whether systemd has loaded an older version of UNIT, of a unit that a FILE belongs to, or of the mounts in
# /etc/fstab. A reload runs all generators and reads every unit: a tenth of a second, and a node starts some 15 services. systemd
# finds the file of a unit that it has not loaded by itself (manager_unit_cache_should_retry_load in its src/core/manager.c).
outdated() {
    local units=("$1") file unit states
    for file in "${@:2}"; do
        if [[ $file == "$UNITS"/* ]]; then
            file=${file#"$UNITS"/}
            units+=("${file%%.d/*}")
        fi
    done
    # Ubuntu 24.04's systemd does not report a new folder of drop-ins: fixed in 255.11, systemd/systemd#31752.
    for unit in "${units[@]}"; do
        if [ "$UNITS/${unit%.service}.service.d" -nt "$RELOADED" ]; then return 0; fi
    done
    states=$(systemctl show --property=LoadState,NeedDaemonReload --value "${units[@]}") || return 0
    [[ $states =~ yes|not-found ]] || [ /etc/fstab -nt "$RELOADED" ]
}

# The stamp has the time before the reload, and is there only after it, so that a run that ended in between is completed.
reload_systemd() {
    mkdir -p "$STARTED"
    touch "$RELOADED.new"
    systemctl daemon-reload
    mv "$RELOADED.new" "$RELOADED"
}

# enable_at_boot UNIT: writes the links. `systemctl enable` alone would also reload systemd, and the packages' scripts for System V
# once or twice more; the service is started anyway.
enable_at_boot() {
    SYSTEMCTL_SKIP_SYSV=1 systemctl --quiet --root=/ enable "$1"
}

# service_down UNIT: stops and disables a unit that service_up started.
service_down() {
    local stamp=$STARTED/$1
    if [ ! -e "$stamp" ]; then return; fi
    systemctl --quiet disable --now "$1"
    rm -f "$stamp"
}

# service_failed UNIT: fails with the program's own last message, which systemctl does not print.
service_failed() {
    local said
    journalctl --no-pager -o cat -n 20 -u "$1" >&2 || true
    said=$(journalctl --no-pager -q -o cat -n 1 "_SYSTEMD_UNIT=$1.service" || true)
    fail "$1 does not start: ${said:-see journalctl -u $1}"
}
