# The last step before an image is made of this machine: records what is installed, and removes the machine's identity.
readonly BAKED=/etc/gpucluster/baked

step_seal() {
    local unit
    put_file "$BAKED" 0644 root:root <<<"recipe=$RECIPE base=$BASE made=$(date -u +%FT%TZ) steps=${INSTALLS[*]}"
    # Packages start their services; on a node its own steps do that, after configuring them.
    for unit in slurmctld slurmd slurmdbd mariadb munge nfs-server; do
        if systemctl cat "$unit.service" >/dev/null 2>&1; then systemctl --quiet disable --now "$unit"; fi
    done
    # A host key that all nodes of all clusters share would give access to all of them.
    rm -f /etc/munge/munge.key /etc/ssh/ssh_host_*
    forget_identity
    rm -rf /var/lib/gpucluster
    apt-get clean
}

# Each instance makes its own, and cloud-init recognises a new instance by its id. The log of this boot is kept under another
# name: nodes start with a new one.
forget_identity() {
    # Empty and not removed: systemd would take the next boot for the first one, and enable every service.
    : >/etc/machine-id
    if [ ! -L /var/lib/dbus/machine-id ]; then rm -f /var/lib/dbus/machine-id; fi
    rm -rf /var/lib/systemd/random-seed /tmp/b.zip
    if [ -e /var/log/gpucluster/boot.log ]; then mv -f /var/log/gpucluster/boot.log /var/log/gpucluster/bake.log; fi
}
