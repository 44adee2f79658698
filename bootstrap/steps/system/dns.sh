# Node names resolve without the zone. Names that are missing are not remembered: nodes come and go.
step_dns() {
    local conf=/etc/systemd/resolved.conf.d/gpucluster.conf name
    # Else a node takes its own name for a link-local or a loopback address, which is no meeting point for others.
    name=$(hostname)
    put_line /etc/hosts "$(imds meta-data/local-ipv4) $name.$ZONE $name"
    if systemctl cat systemd-resolved.service >/dev/null 2>&1; then
        printf '[Resolve]\nDomains=%s\nCache=no-negative\n' "$ZONE" | put_file "$conf" 0644 root:root
        service_up systemd-resolved "$conf"
    else
        put_line /etc/resolv.conf "search $ZONE"
    fi
}
