# The head node exports /home to the VPC, unless it is on a file system of its own. Nodes write as root below /home/gpucluster (host keys, environments, reports
# of BeeGFS), so root is not squashed. It would not stop root on a node, who can take every other uid: exports(5), docs/users.md.
step_home_export() {
    local exports=/etc/exports.d/gpucluster.exports conf=/etc/nfs.conf.d/gpucluster.conf
    if [ "$HOME_ON" != head-nfs ]; then return; fi
    home_exports | put_file "$exports" 0644 root:root
    printf '[nfsd]\nport=%s\nthreads=%s\n' "$NFS_PORT" "$(nfsd_threads)" | put_file "$conf" 0644 root:root
    needs_home nfs-server
    # The kernel serves; it asks this daemon who may mount what.
    starts_again nfs-mountd
    # The service reads the exports when it starts.
    service_up nfs-server "$exports" "$conf" /etc/systemd/system/nfs-mountd.service.d/gpucluster-restart.conf
}

# A subnet may be in a CIDR block that was added to the VPC later.
home_exports() {
    local block blocks
    blocks=$(imds_interface vpc-ipv4-cidr-blocks)
    printf /home
    for block in $blocks; do printf ' %s(rw,sync,no_root_squash,no_subtree_check)' "$block"; done
    echo
}

# The default, eight threads, is too few if a thousand nodes mount it. ParallelCluster uses the same number:
# aws/aws-parallelcluster-cookbook#1554
nfsd_threads() {
    local threads=$(($(nproc) * 4))
    echo $((threads < 8 ? 8 : threads > 256 ? 256 : threads))
}
