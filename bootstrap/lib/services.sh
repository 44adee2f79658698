# Starts services only if necessary: running a role twice restarts nothing.

readonly STARTED=/var/lib/gpucluster/started

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
    systemctl daemon-reload
    systemctl is-enabled --quiet "$unit" || systemctl --quiet enable "$unit"
    mkdir -p "$STARTED"
    touch "$stamp"
    systemctl restart "$unit" || service_failed "$unit"
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
