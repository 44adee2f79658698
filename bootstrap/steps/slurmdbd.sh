# Slurm's accounting daemon. It makes its tables at its first start, while the boot goes on: see accounting.sh.
step_slurmdbd() {
    local conf=/etc/slurm/slurmdbd.conf
    if [ "$ACCOUNTING" = off ]; then
        service_down slurmdbd
        return
    fi
    put_directory /var/log/slurm 0755 slurm:slurm
    slurmdbd_conf | put_file "$conf" 0600 slurm:slurm
    service_up slurmdbd "$conf" /etc/munge/munge.key
}

# slurmdbd_conf: the bundle's, and what only the deployment knows.
slurmdbd_conf() {
    cat "$BUNDLE/slurm/slurmdbd.conf"
    if [ "$ACCOUNTING" = rds ]; then database_on_rds; fi
}
