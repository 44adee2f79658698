# BeeGFS in memory: what it needs is installed at boot; from then on a program follows what the head says of it.
step_beegfs() {
    local program=node
    if [ "$ROLE" = head ]; then program="head"; fi
    this_partition
    case $BEEGFS_ROLE in none | job) beegfs_end "gpucluster-beegfs_$program" ;; esac
    if [ "$BEEGFS_ROLE" != none ]; then bash "$BUNDLE/beegfs.sh" install; fi
    case $BEEGFS_ROLE in none | job) return ;; esac
    node_program
    node_service "beegfs_$program" "beegfs.$program" "Keep the part of BeeGFS that this machine has as the head says"
    # A job may begin as soon as slurmd runs. What takes longer goes on behind it: the head keeps jobs off the servers.
    if [ "$ROLE" = compute ]; then /opt/gpucluster/bin/node-program beegfs.node --wait 300; fi
}

# beegfs_end SERVICE: what an earlier cluster file had.
beegfs_end() {
    if [ ! -e "$STARTED/$1" ]; then return; fi
    service_down "$1"
    systemctl stop beegfs-client beegfs-mgmtd
}
