# Limits of users and of the kernel: RDMA pins memory, and a rank has many open files and sockets.
step_limits() {
    local settings=/etc/sysctl.d/90-gpucluster.conf
    put_file /etc/security/limits.d/gpucluster.conf 0644 root:root <<'EOL'
* soft memlock unlimited
* hard memlock unlimited
* soft nofile 131072
* hard nofile 131072
EOL
    # Ranks of a node read each other's memory (Open MPI, libfabric); the rest is for training over TCP at 25 Gbit/s and more.
    put_file "$settings" 0644 root:root <<'EOL'
kernel.yama.ptrace_scope = 0
net.core.rmem_max = 16777216
net.core.wmem_max = 16777216
net.core.netdev_max_backlog = 30000
net.core.somaxconn = 4096
net.ipv4.tcp_rmem = 4096 87380 16777216
net.ipv4.tcp_wmem = 4096 65536 16777216
EOL
    # In a container most of them belong to the host.
    sysctl --quiet --load="$settings" 2>/dev/null || say "the kernel does not let this machine set all of $settings"
    keep_shared_memory
    share_sshd
    if [ "$ROLE" = head ]; then share_head; fi
    say "locked memory of this shell: $(ulimit -l), tcp_rmem $(sysctl -n net.ipv4.tcp_rmem | tr '\t' ' ')"
}

# Nobody stops the head node for all others: half of its memory and 4,096 tasks are the most that the sessions of one user have
# (systemd.resource-control(5)). Not on compute nodes, where some launchers start ranks by ssh.
share_head() {
    local slice=/etc/systemd/system/user-.slice.d/90-gpucluster.conf before
    before=$(cat "$slice" 2>/dev/null || true)
    put_file "$slice" 0644 root:root <<'EOL'
[Slice]
TasksMax=4096
MemoryMax=50%
EOL
    if [ "$before" != "$(cat "$slice")" ]; then systemctl daemon-reload; fi
}

# Connections that have not logged in are limited for each address, and end soon, so that nobody keeps the places of all
# (sshd_config(5): MaxStartups, PerSourceMaxStartups, LoginGraceTime). Users of the head node have one address together:
# job_firewall.sh limits each of them.
share_sshd() {
    local sshd=/etc/ssh/sshd_config.d/50-gpucluster.conf before
    before=$(cat "$sshd" 2>/dev/null || true)
    printf 'MaxStartups 200:30:400\nPerSourceMaxStartups 100\nLoginGraceTime 30\n' | put_file "$sshd" 0644 root:root
    if [ "$before" != "$(cat "$sshd")" ]; then systemctl try-reload-or-restart ssh; fi
}

# By default logind deletes a user's files in /dev/shm when the user's last session on the machine ends, also those of a running job,
# which is no session: logind.conf(5). Data loaders of PyTorch fail then: https://github.com/mlcommons/storage/issues/528. An ssh to
# the node is such a session, and so is `gpucluster doctor --node`.
keep_shared_memory() {
    printf '[Login]\nRemoveIPC=no\n' | put_file /etc/systemd/logind.conf.d/gpucluster.conf 0644 root:root
    # It reads its files again at SIGHUP.
    if systemctl is-active --quiet systemd-logind; then systemctl kill --signal=HUP systemd-logind; fi
}
