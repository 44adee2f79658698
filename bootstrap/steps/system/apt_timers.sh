# Ubuntu updates itself soon after boot, and holds apt's locks for minutes. A head node does this an hour later, a compute node
# never: libraries would change under running jobs.
step_apt_timers() {
    local mark=/var/lib/gpucluster/apt-timers
    if [ -e "$mark" ] || ! systemctl cat apt-daily.timer >/dev/null 2>&1; then return; fi
    # An upgrade that has begun completes its package first.
    timeout 300 systemctl stop apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service ||
        say "warning: this machine is updating itself: installing packages may have to wait"
    # --root=/ changes the links without a reload of systemd.
    case $ROLE in
    head) systemd-run --quiet --on-active=1h systemctl start apt-daily.timer apt-daily-upgrade.timer ;;
    compute) systemctl --quiet --root=/ disable apt-daily.timer apt-daily-upgrade.timer ;;
    esac
    put_file "$mark" 0644 root:root </dev/null
}
