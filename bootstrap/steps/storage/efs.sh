# EFS over TLS, which its policy requires. No Ubuntu archive has the mount helper for this, but stunnel. The tunnels are not in
# /etc/stunnel, because the package starts those itself.
TUNNELS=/etc/gpucluster/tunnels

# mount_efs MOUNT ACCESS-POINT: mounts the file system DNS_NAME, with the options that AWS recommends. `-`: through no access point.
mount_efs() {
    source_efs "$1" "$2"
    mounted "$1" "$FS_TYPE" "$FS_SOURCE" "$FS_OPTIONS" "$FS_AT_BOOT"
}

# Packages for an image.
client_efs() {
    if ! command -v stunnel >/dev/null; then without_services install_packages stunnel4; fi
}

# source_efs MOUNT [ACCESS-POINT]: sets what mount needs, and opens the tunnel.
source_efs() {
    local name port
    name=gpucluster-efs-$(note_of "$1")
    # shellcheck disable=SC2034 # fail_mount_with_cause reads them
    PORT=2049 VERSION=''
    if ! command -v stunnel >/dev/null; then install_packages stunnel4; fi
    port=$(tunnel_port "$TUNNELS/$name.conf")
    efs_tunnel "$1" "$name" "$port" "${2:--}"
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
# efs_tunnel MOUNT NAME PORT ACCESS-POINT: looks the name up at each connection, because a mount target may get another address.
efs_tunnel() {
    local conf=$TUNNELS/$2.conf unit=/etc/systemd/system/$2.service folder=$TUNNELS/$2 renews='' shows='' before=''
    if [ "$4" != - ]; then
        put_program bin/efs-certificate
        renews="/opt/gpucluster/bin/efs-certificate $folder ${DNS_NAME%%.*} $4"
        before="ExecStartPre=$renews"
        printf -v shows 'cert = %s\nkey = %s\n' "$folder/certificate.pem" "$folder/key.pem"
    fi
    # The mount's line in fstab names only the tunnel.
    if grep -qs '^; from ' "$conf" && ! grep -qxF "; from $DNS_NAME through $4" "$conf"; then unmount "$1"; fi
    put_file "$conf" 0644 root:root <<CONF
; from $DNS_NAME through $4
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
$shows
CONF
    put_file "$unit" 0644 root:root <<UNIT
[Unit]
Description=TLS to the EFS file system of $1
After=network-online.target systemd-resolved.service
Wants=network-online.target

[Service]
$before
ExecStart=/usr/bin/env stunnel $conf
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
UNIT
    service_up "$2" "$conf" "$unit"
    if [ -n "$renews" ]; then renew_certificate "$2" "$renews $2"; fi
}

# renew_certificate NAME COMMAND: each hour, as amazon-efs-utils does.
renew_certificate() {
    local unit=/etc/systemd/system/$1-certificate
    printf '[Unit]\nDescription=Renew the certificate of %s\n\n[Service]\nType=oneshot\nExecStart=%s\n' "$1" "$2" |
        put_file "$unit.service" 0644 root:root
    printf '[Unit]\nDescription=Renew the certificate of %s\n\n[Timer]\nOnActiveSec=1h\nOnUnitActiveSec=1h\n\n[Install]\nWantedBy=timers.target\n' \
        "$1" | put_file "$unit.timer" 0644 root:root
    service_up "$1-certificate.timer" "$unit.timer" "$unit.service"
}

# close_tunnel MOUNT: for a file system that is no longer mounted.
close_tunnel() {
    local name
    name=gpucluster-efs-$(note_of "$1")
    if [ ! -e "$TUNNELS/$name.conf" ]; then return; fi
    service_down "$name-certificate.timer"
    service_down "$name"
    rm -rf "$TUNNELS/$name.conf" "${TUNNELS:?}/$name" "/etc/systemd/system/$name"{.service,-certificate.service,-certificate.timer}
}
