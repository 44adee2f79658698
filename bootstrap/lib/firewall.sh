# Rules of nftables that a machine loads at each boot, before its network.

# load_at_boot NAME DESCRIPTION <RULES: keeps the rules as /etc/gpucluster/NAME.nft, and loads them now if they have changed.
load_at_boot() {
    local name=$1 rules=/etc/gpucluster/$1.nft unit=/etc/systemd/system/gpucluster-$1.service
    put_file "$rules" 0644 root:root
    # With the default dependencies it would start after basic.target, which comes after the network if there is cloud-init.
    put_file "$unit" 0644 root:root <<EOL
[Unit]
Description=$2
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
EOL
    service_up "gpucluster-$name" "$rules" "$unit"
}
