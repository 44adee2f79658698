# The head exports /home to the VPC, where EFS does not hold it. Nodes write their host keys there as root, so root is not squashed.
step_home_export() {
    local exports=/etc/exports.d/gpucluster.exports
    if [ "$HOME_ON" = efs ]; then return; fi
    echo "/home $(imds_interface vpc-ipv4-cidr-block)(rw,sync,no_root_squash,no_subtree_check)" |
        put_file "$exports" 0644 root:root
    needs_home nfs-server
    # Its start reads the exports anew.
    service_up nfs-server "$exports"
}
