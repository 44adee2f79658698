# The head exports /home to the VPC. Nodes write their host keys there as root, so root is not squashed.
step_home_export() {
    local exports=/etc/exports.d/gpucluster.exports
    echo "/home $(imds_interface vpc-ipv4-cidr-block)(rw,sync,no_root_squash,no_subtree_check)" |
        put_file "$exports" 0644 root:root
    # The volume is mounted after the network is up, and the export of an empty directory would hide that from nodes.
    put_file /etc/systemd/system/nfs-server.service.d/gpucluster-home.conf 0644 root:root <<'EOF'
[Unit]
RequiresMountsFor=/home/gpucluster
EOF
    # Its start reads the exports anew.
    service_up nfs-server "$exports"
}
