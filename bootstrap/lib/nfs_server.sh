# The head node's NFS server: it shares /home, and the EBS volumes of `storage`.

# exports_file PATH
exports_file() {
    echo "/etc/exports.d/gpucluster-$(note_of "$1").exports"
}

# exports_of PATH [OPTIONS]: its line. A subnet may be in a CIDR block that was added to the VPC later. Nodes write as root below
# /home/gpucluster (host keys, environments, reports of BeeGFS), so root is not squashed. It would not stop root on a node, who can take
# every other uid: exports(5), docs/users.md.
exports_of() {
    local block blocks
    blocks=$(imds_interface vpc-ipv4-cidr-blocks)
    printf %s "$1"
    for block in $blocks; do printf ' %s(rw,sync,no_root_squash,no_subtree_check%s)' "$block" "${2:-}"; done
    echo
}

# nfs_server [FILE...]: the service reads the exports when it starts, and so it restarts if a FILE has changed.
nfs_server() {
    local conf=/etc/nfs.conf.d/gpucluster.conf
    printf '[nfsd]\nport=%s\nthreads=%s\n' "$NFS_PORT" "$(nfsd_threads)" | put_file "$conf" 0644 root:root
    needs_home nfs-server
    # The kernel serves; it asks this daemon who may mount what.
    starts_again nfs-mountd
    service_up nfs-server "$@" "$conf" /etc/systemd/system/nfs-mountd.service.d/gpucluster-restart.conf
}

# The default, eight threads, is too few if a thousand nodes mount it. ParallelCluster uses the same number:
# aws/aws-parallelcluster-cookbook#1554
nfsd_threads() {
    local threads=$(($(nproc) * 4))
    echo $((threads < 8 ? 8 : threads > 256 ? 256 : threads))
}

# close_disk MOUNT: for a volume that `storage` no longer has. NFS holds it until it is no longer exported.
close_disk() {
    local name exports
    name=$(note_of "$1")
    exports=$(exports_file "$1")
    if [ ! -e "$exports" ]; then return; fi
    rm -f "$exports"
    exportfs -ra
    service_down "gpucluster-disk-$name"
    rm -f "/etc/systemd/system/gpucluster-disk-$name.service"
}

# detach_disk MOUNT: after it is unmounted.
detach_disk() {
    /opt/gpucluster/bin/node-program head.disks detach "$1"
}
