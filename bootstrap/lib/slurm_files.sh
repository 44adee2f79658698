# slurm_limits UNIT: RDMA pins memory, so neither daemon may limit locked memory for its jobs.
slurm_limits() {
    put_file "/etc/systemd/system/$1.service.d/gpucluster-limits.conf" 0644 root:root <<'EOF'
[Service]
LimitMEMLOCK=infinity
LimitSTACK=infinity
LimitNOFILE=131072
EOF
}

# low_port UNIT: the daemon takes its port as the user slurm (controller.c: _open_ports after _become_slurm_user), and it is one of
# root's (gpucluster/ports.py).
low_port() {
    put_file "/etc/systemd/system/$1.service.d/gpucluster-port.conf" 0644 root:root <<'EOF'
[Service]
User=slurm
Group=slurm
AmbientCapabilities=CAP_NET_BIND_SERVICE
EOF
}

# starts_again UNIT: systemd restarts the daemon whenever it ends, and never gives up, because without slurmctld nothing terminates
# idle nodes, which cost money. Most units of the distributions give up, or never restart. Not on-failure: a daemon that ends with exit
# code 0 or by SIGTERM would stay dead. `systemctl stop` still stops it (systemd.service(5)). A job's steps survive slurmd, and the
# queue survives slurmctld.
starts_again() {
    put_file "/etc/systemd/system/$1.service.d/gpucluster-restart.conf" 0644 root:root <<'EOF'
[Unit]
StartLimitIntervalSec=0

[Service]
Restart=always
RestartSec=2
RestartSteps=5
RestartMaxDelaySec=60
EOF
}

# image_file NAME: /etc/slurm/NAME comes from the machine image if it has one, else from the bundle, whose values are those of a
# real machine. The bundle's file has a mark, so that a later bundle can replace it.
image_file() {
    local path=/etc/slurm/$1
    if [ -e "$path" ] && ! grep -qs '^# written by GpuCluster' "$path"; then return; fi
    put_file "$path" 0644 root:root <"$BUNDLE/slurm/$1"
}
