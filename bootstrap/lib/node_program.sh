# node_program: installs what starts the programs of gpucluster_node.
node_program() {
    put_program bin/node-program
}

# quicken_node_programs: does once what each program of a head node would do each time it starts. Jobs wait for that: a launch
# would compile 30 modules and load all of EC2's model.
quicken_node_programs() {
    (
        cd "$BUNDLE" || exit
        python3 -m compileall -q gpucluster_node && python3 -m gpucluster_node.aws_models
    ) || say "WARNING: the node programs will start slower"
}

# node_service NAME WING.MODULE DESCRIPTION [FILE...]: a daemon, gpucluster-NAME, that is restarted when its code or its data
# change. Its code is its wing and the modules that all wings share; wings import nothing of each other. Its data are fleet.json
# and FILEs.
node_service() {
    local unit=/etc/systemd/system/gpucluster-$1.service code
    code=$(cat "$BUNDLE"/gpucluster_node/{,"${2%.*}"/}*.py "$BUNDLE/fleet.json" "${@:4}" | sha256sum)
    put_file "$unit" 0644 root:root <<EOF
[Unit]
Description=$3
After=network-online.target slurmctld.service
Wants=network-online.target

[Service]
# code ${code:0:16}
ExecStart=/opt/gpucluster/bin/node-program $2
Restart=always
RestartSec=5
StandardOutput=append:/var/log/gpucluster/power.log
StandardError=append:/var/log/gpucluster/power.log

[Install]
WantedBy=multi-user.target
EOF
    service_up "gpucluster-$1" "$unit"
}
