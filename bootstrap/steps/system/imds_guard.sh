# The metadata service gives out the node's credentials, so only root and the program that reads pushed SSH keys may call it.
step_imds_guard() {
    local rules=/etc/gpucluster/imds-guard.nft unit=/etc/systemd/system/gpucluster-imds-guard.service
    imds_guard_rules | put_file "$rules" 0644 root:root
    # With the default dependencies it would start after basic.target, which comes after the network if there is cloud-init.
    put_file "$unit" 0644 root:root <<EOF
[Unit]
Description=Keep jobs away from the instance metadata service
DefaultDependencies=no
After=local-fs.target
Before=network-pre.target shutdown.target
Wants=network-pre.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$(command -v nft) -f $rules

[Install]
WantedBy=sysinit.target
EOF
    service_up gpucluster-imds-guard "$rules" "$unit"
}

# Naming the table before deleting it lets the file load whether or not the table exists.
imds_guard_rules() {
    local users=0 connect
    connect=$(id -u ec2-instance-connect 2>/dev/null || true)
    if [ -n "$connect" ]; then users="0, $connect"; fi
    cat <<EOF
table inet gpucluster_imds
delete table inet gpucluster_imds
table inet gpucluster_imds {
    chain output {
        type filter hook output priority filter; policy accept;
        ip daddr 169.254.169.254 meta skuid != { $users } reject
        ip6 daddr fd00:ec2::254 meta skuid != { $users } reject
    }
}
EOF
}
