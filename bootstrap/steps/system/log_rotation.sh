# Rotation of Slurm's logs and of ours, by the system's daily logrotate.
step_log_rotation() {
    local daemon
    for daemon in slurmctld slurmd slurmdbd; do slurm_rotation "$daemon" | put_file "/etc/logrotate.d/$daemon" 0644 root:root; done
    # Their writers only append, and some keep the files open: services, and the boot.
    put_file /etc/logrotate.d/gpucluster 0644 root:root <<'EOF'
/var/log/gpucluster/*.log {
    size 20M
    rotate 5
    copytruncate
    compress
    missingok
    notifempty
}
EOF
}

# slurm_rotation DAEMON: replaces the package's file, which asks the daemon to reconfigure, by a PID file that it does not write under
# systemd (controller.c of 23.11: under_systemd). So the daemon would write to the deleted file for ever. It opens its log again at
# SIGUSR2 (slurm.conf(5), LOGGING). delaycompress: running steps write to the old file.
slurm_rotation() {
    cat <<EOF
/var/log/slurm/$1.log {
    size 5M
    rotate 12
    nocreate
    compress
    delaycompress
    missingok
    notifempty
    postrotate
        systemctl kill --kill-whom=main --signal=SIGUSR2 $1 2>/dev/null || true
    endscript
}
EOF
}
