# EFS over TLS, which its policy requires. No Ubuntu archive has the mount helper for this, but stunnel. The tunnels are not in
# /etc/stunnel, because the package starts those itself.
TUNNELS=/etc/gpucluster/tunnels

# mount_efs MOUNT: mounts the file system DNS_NAME, with the options that AWS recommends.
mount_efs() {
    source_efs "$1"
    mounted "$1" "$FS_TYPE" "$FS_SOURCE" "$FS_OPTIONS" "$FS_AT_BOOT"
}

# Packages for an image.
client_efs() {
    if ! command -v stunnel >/dev/null; then without_services install_packages stunnel4; fi
}

# source_efs MOUNT: sets what mount needs, and opens the tunnel.
source_efs() {
    local name port
    name=gpucluster-efs-$(note_of "$1")
    # shellcheck disable=SC2034 # fail_mount_with_cause reads them
    PORT=2049 VERSION=''
    if ! command -v stunnel >/dev/null; then install_packages stunnel4; fi
    port=$(tunnel_port "$TUNNELS/$name.conf")
    efs_tunnel "$1" "$name" "$port"
    # shellcheck disable=SC2034 # the caller reads them
    FS_TYPE=nfs4 FS_SOURCE=127.0.0.1:/ FS_AT_BOOT=x-systemd.requires=$name.service
    FS_OPTIONS=nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,noatime,port=$port
}

# tunnel_port FILE: the port in the file, or else the next that no other tunnel uses.
tunnel_port() {
    local port=$FIRST_TUNNEL
    if [ -e "$1" ]; then
        sed -n 's/^accept = 127.0.0.1://p' "$1"
        return
    fi
    while grep -qsx "accept = 127.0.0.1:$port" "$TUNNELS"/gpucluster-*.conf; do port=$((port + 1)); done
    if [ "$port" -gt "$LAST_TUNNEL" ]; then
        fail "no port is left for a tunnel to EFS ($FIRST_TUNNEL to $LAST_TUNNEL): cluster.yaml may have $((LAST_TUNNEL - FIRST_TUNNEL + 1)) EFS file systems"
    fi
    echo "$port"
}

# shellcheck disable=SC2154 # the step that mounts it sets DNS_NAME
# efs_tunnel MOUNT NAME PORT: looks the name up at each connection, because a mount target may get another address.
efs_tunnel() {
    local conf=$TUNNELS/$2.conf unit=/etc/systemd/system/$2.service
    put_file "$conf" 0644 root:root <<CONF
foreground = yes
pid =
syslog = no
socket = l:SO_REUSEADDR=yes

[efs]
client = yes
accept = 127.0.0.1:$3
connect = $DNS_NAME:2049
delay = yes
sslVersionMin = TLSv1.2
verifyChain = yes
checkHost = $DNS_NAME
CAfile = /etc/ssl/certs/ca-certificates.crt
TIMEOUTclose = 0
CONF
    put_file "$unit" 0644 root:root <<UNIT
[Unit]
Description=TLS to the EFS file system of $1
After=network-online.target systemd-resolved.service
Wants=network-online.target

[Service]
ExecStart=/usr/bin/env stunnel $conf
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
UNIT
    service_up "$2" "$conf" "$unit"
}

# close_tunnel MOUNT: for a file system that is no longer mounted.
close_tunnel() {
    local name
    name=gpucluster-efs-$(note_of "$1")
    if [ ! -e "$TUNNELS/$name.conf" ]; then return; fi
    service_down "$name"
    rm -f "$TUNNELS/$name.conf" "/etc/systemd/system/$name.service"
}
