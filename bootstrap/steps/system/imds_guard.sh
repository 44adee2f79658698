# The metadata service gives out the node's credentials, so only root and the program that reads pushed SSH keys may call it.
step_imds_guard() {
    imds_guard_rules | load_at_boot imds-guard "Keep jobs away from the instance metadata service"
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
