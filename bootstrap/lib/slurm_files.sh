# slurm_limits UNIT: RDMA pins memory, so neither daemon may limit it for the jobs that it starts.
slurm_limits() {
    put_file "/etc/systemd/system/$1.service.d/gpucluster-limits.conf" 0644 root:root <<'EOF'
[Service]
LimitMEMLOCK=infinity
LimitSTACK=infinity
LimitNOFILE=131072
EOF
}

# starts_again UNIT: a daemon that dies starts again, and goes on trying: without slurmctld nothing ends idle nodes, which cost
# money. The distributions' units leave it dead. The steps of a job outlive slurmd, and the queue slurmctld.
starts_again() {
    put_file "/etc/systemd/system/$1.service.d/gpucluster-restart.conf" 0644 root:root <<'EOF'
[Unit]
StartLimitIntervalSec=0

[Service]
Restart=on-failure
RestartSec=2
RestartSteps=5
RestartMaxDelaySec=60
EOF
}

# image_file NAME: /etc/slurm/NAME belongs to the machine image where the image brings one; else it is the bundle's, which
# says what a real machine is. The bundle's carries a mark, so that a later bundle may change what an earlier one wrote.
image_file() {
    local path=/etc/slurm/$1
    if [ -e "$path" ] && ! grep -qs '^# written by GpuCluster' "$path"; then return; fi
    put_file "$path" 0644 root:root <"$BUNDLE/slurm/$1"
}
