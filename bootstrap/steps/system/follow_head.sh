# Lets a running node and its jobs continue after the head node was replaced.
step_follow_head() {
    local unit=/etc/systemd/system/gpucluster-follow-head.service program=/opt/gpucluster/bin/follow-head
    put_program bin/follow-head
    put_file "$unit" 0644 root:root <<EOF
[Unit]
Description=Redirect connections to another head node
After=network-online.target home.mount
Wants=network-online.target

[Service]
ExecStart=$program head.$ZONE $NFS_PORT $SLURMCTLD_PORT
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
EOF
    service_up gpucluster-follow-head "$unit" "$program"
}
