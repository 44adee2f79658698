# node_program: installs what starts the programs of gpucluster_node.
node_program() {
    put_program bin/node-program
}

# keep_port NAME ADDRESS:PORT: systemd keeps the port of gpucluster-NAME, from before users can log in, also while the daemon restarts.
# Otherwise a user could take the port then, and answer in the daemon's place. A daemon that starts too often would make systemd give
# up the port too (systemd.socket(5): TriggerLimitIntervalSec, systemd.unit(5): StartLimitIntervalSec); 0 means without limit. systemd
# listens only for a unit that it knows, so the daemon's node_unit comes first (systemd's src/core/socket.c: socket_start).
keep_port() {
    local unit=/etc/systemd/system/gpucluster-$1.socket
    put_file "$unit" 0644 root:root <<EOF
[Unit]
Description=Keep the port of gpucluster-$1

[Socket]
ListenStream=$2
Backlog=1024
TriggerLimitIntervalSec=0

[Install]
WantedBy=sockets.target
EOF
    if systemctl is-active --quiet "gpucluster-$1.socket" && [ ! "$unit" -nt "$STARTED/gpucluster-$1.socket" ]; then return; fi
    # The daemon of an older version has the port itself, and systemd does not listen for a daemon that runs.
    systemctl stop "gpucluster-$1.service" 2>/dev/null || true
    service_up "gpucluster-$1.socket" "$unit"
}

# node_service NAME WING.MODULE DESCRIPTION [FILE...]: a daemon, gpucluster-NAME, that is restarted when its code or its data
# change. Its code is its wing and the modules that all wings share; wings import nothing of each other. Its data are fleet.json
# and FILEs.
node_service() {
    local unit=/etc/systemd/system/gpucluster-$1.service
    node_unit "$@"
    service_up "gpucluster-$1" "$unit"
}

# node_unit NAME WING.MODULE DESCRIPTION [FILE...]: the unit of such a daemon.
node_unit() {
    local unit=/etc/systemd/system/gpucluster-$1.service code
    code=$(cat "$BUNDLE"/gpucluster_node/{,"${2%.*}"/}*.py "$BUNDLE/fleet.json" "${@:4}" | sha256sum)
    put_file "$unit" 0644 root:root <<EOF
[Unit]
Description=$3
After=network-online.target slurmctld.service
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
# code ${code:0:16}
ExecStart=/opt/gpucluster/bin/node-program $2
Restart=always
RestartSec=5
# The kernel ends users' programs first if memory is short.
OOMScoreAdjust=-900
StandardOutput=append:/var/log/gpucluster/power.log
StandardError=append:/var/log/gpucluster/power.log

[Install]
WantedBy=multi-user.target
EOF
}
