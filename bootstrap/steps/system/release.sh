# The head node launches the compute nodes, not CloudFormation. When the head node is shut down for good, it terminates them.
step_release() {
    local unit=/etc/systemd/system/gpucluster-release.service
    node_program
    # Units stop in reverse order: after slurmctld, which could launch more nodes, and while the network still works.
    put_file "$unit" 0644 root:root <<'EOF'
[Unit]
Description=End this cluster's compute instances when the head node is powered off
After=network-online.target systemd-resolved.service dbus.service
Wants=network-online.target
Before=slurmctld.service gpucluster-power.service gpucluster-update.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/opt/gpucluster/bin/node-program head.release --at-power-off
StandardOutput=append:/var/log/gpucluster/power.log
StandardError=append:/var/log/gpucluster/power.log
TimeoutStopSec=60

[Install]
WantedBy=multi-user.target
EOF
    service_up gpucluster-release
}
