# node_program: starts a program of gpucluster_node. slurmctld and sudo drop the machine's environment.
node_program() {
    put_file /opt/gpucluster/bin/node-program 0755 root:root <<EOF
#!/bin/sh
# usage: node-program [WING.]MODULE [ARGUMENT...]
set -a
if [ -e /etc/environment ]; then . /etc/environment; fi
AWS_DEFAULT_REGION=$REGION
AWS_METADATA_SERVICE_TIMEOUT=5
AWS_METADATA_SERVICE_NUM_ATTEMPTS=5
# Older SDKs call STS in us-east-1, which a network without a route to the internet does not reach.
AWS_STS_REGIONAL_ENDPOINTS=regional
PYTHONDONTWRITEBYTECODE=1
set +a
cd /opt/gpucluster/bundle || exit
module=\$1
shift
exec python3 -m "gpucluster_node.\$module" "\$@"
EOF
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
