# Rules of nftables that a machine loads at each boot, before its network.

# Ports of the machine's tunnels to EFS. No user may listen there, where the kernel would believe what it reads, so they are below 1024;
# and none may connect to them (steps/system/job_firewall.sh). Nobody else uses them: https://www.iana.org/assignments/service-names-port-numbers
# shellcheck disable=SC2034 # steps read them
readonly FIRST_TUNNEL=225 LAST_TUNNEL=241

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
