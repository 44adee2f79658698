# The last step before an image is made of this machine: what it has is written down, what it is is forgotten.
readonly BAKED=/etc/gpucluster/baked

step_seal() {
    local unit
    put_file "$BAKED" 0644 root:root <<<"recipe=$RECIPE base=$BASE made=$(date -u +%FT%TZ) steps=${INSTALLS[*]}"
    # Packages start their services; a node's own steps do that, once they are configured.
    for unit in slurmctld slurmd slurmdbd mariadb munge nfs-server; do
        if systemctl cat "$unit.service" >/dev/null 2>&1; then systemctl --quiet disable --now "$unit"; fi
    done
    # A key that all nodes of all clusters had would open them all.
    rm -f /etc/munge/munge.key /etc/ssh/ssh_host_*
    forget_identity
    rm -rf /var/lib/gpucluster
    apt-get clean
}

# Each instance makes its own, and cloud-init sees by the instance's id that it is another. The log of this boot stays,
# under another name: nodes begin theirs anew.
forget_identity() {
    # Empty and not removed: systemd would take the next boot for the first one, and enable every service.
    : >/etc/machine-id
    if [ ! -L /var/lib/dbus/machine-id ]; then rm -f /var/lib/dbus/machine-id; fi
    rm -rf /var/lib/systemd/random-seed /tmp/b.zip
    if [ -e /var/log/gpucluster/boot.log ]; then mv -f /var/log/gpucluster/boot.log /var/log/gpucluster/bake.log; fi
}
