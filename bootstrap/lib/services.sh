# Services that are started only when they must be: running a role twice restarts nothing.

readonly STARTED=/var/lib/gpucluster/started

# service_up UNIT FILE...: UNIT is enabled, running, and was started after the last change of every FILE.
# A stamp and not the unit's own start time is compared, so that a run that ended between writing and restarting is made good.
# Sets RESTARTED to yes or no.
service_up() {
    local unit=$1 stamp=$STARTED/$1 file
    shift
    RESTARTED=no
    systemctl is-active --quiet "$unit" || RESTARTED=yes
    for file in "$@"; do
        if [ "$file" -nt "$stamp" ]; then RESTARTED=yes; fi
    done
    if [ "$RESTARTED" = no ]; then return; fi
    systemctl daemon-reload
    systemctl is-enabled --quiet "$unit" || systemctl --quiet enable "$unit"
    mkdir -p "$STARTED"
    touch "$stamp"
    systemctl restart "$unit" || service_failed "$unit"
}

# service_down UNIT: what service_up started is stopped, and is not started again.
service_down() {
    local stamp=$STARTED/$1
    if [ ! -e "$stamp" ]; then return; fi
    systemctl --quiet disable --now "$1"
    rm -f "$stamp"
}

# service_failed UNIT: ends with what the program itself said last, which systemctl leaves out.
service_failed() {
    local said
    journalctl --no-pager -o cat -n 20 -u "$1" >&2 || true
    said=$(journalctl --no-pager -q -o cat -n 1 "_SYSTEMD_UNIT=$1.service" || true)
    fail "$1 does not start: ${said:-see journalctl -u $1}"
}
