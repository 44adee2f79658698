# Slurm's accounting daemon. It creates its tables at its first start, while the boot continues: see accounting.sh.
step_slurmdbd() {
    local conf=/etc/slurm/slurmdbd.conf text
    if [ "$ACCOUNTING" = off ]; then
        service_down slurmdbd
        return
    fi
    put_directory /var/log/slurm 0755 slurm:slurm
    text=$(slurmdbd_conf)
    put_file "$conf" 0600 slurm:slurm <<<"$text"
    low_port slurmdbd
    starts_again slurmdbd
    service_up slurmdbd "$conf" /etc/munge/munge.key /etc/systemd/system/slurmdbd.service.d/gpucluster-{port,restart}.conf
}

# slurmdbd_conf: the bundle's file, with values that exist only after the deployment.
slurmdbd_conf() {
    cat "$BUNDLE/slurm/slurmdbd.conf"
    if [ "$ACCOUNTING" = rds ]; then database_on_rds; fi
}

# The password is never an argument, because every user on the machine can read arguments.
database_on_rds() {
    local ca=/etc/slurm/rds-ca.pem
    authorities "$ca"
    cat <<LINES
StorageHost=$(parameter accounting host)
StoragePort=$(parameter accounting port)
StorageUser=$(parameter accounting user)
StoragePass=$(aws_api secret "$(parameter accounting secret_arn)" password)
StorageParameters=SSL_CA=$ca
LINES
}

# authorities FILE: certificate authorities of the database's certificate. An image without a route to the download has the file.
authorities() {
    if [ ! -s "$1" ]; then
        curl -sSf -m 60 --retry 5 --retry-all-errors -o "$1.new" "$(parameter accounting ca_url)"
        mv -f "$1.new" "$1"
    fi
}
