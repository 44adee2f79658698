# BeeGFS in memory: this step installs the software at boot; then a program follows the head node's settings.
step_beegfs() {
    local program=node
    if [ "$ROLE" = head ]; then program="head"; fi
    this_partition
    case $BEEGFS_ROLE in none | job) beegfs_end "gpucluster-beegfs_$program" ;; esac
    if [ "$BEEGFS_ROLE" != none ]; then bash "$BUNDLE/beegfs.sh" install; fi
    case $BEEGFS_ROLE in none | job) return ;; esac
    node_program
    node_service "beegfs_$program" "beegfs.$program" "Keep the part of BeeGFS that this machine has as the head says"
    # A job may start as soon as slurmd runs. Longer work continues in the background: the head node keeps jobs off the servers.
    if [ "$ROLE" = compute ]; then /opt/gpucluster/bin/node-program beegfs.node --wait 300; fi
}

# beegfs_end SERVICE: removes a service of an earlier cluster file.
beegfs_end() {
    if [ ! -e "$STARTED/$1" ]; then return; fi
    service_down "$1"
    systemctl stop beegfs-client beegfs-mgmtd
}
