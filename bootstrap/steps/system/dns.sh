# Node names resolve without the zone. Negative answers are not cached, because nodes are added and removed.
step_dns() {
    local conf=/etc/systemd/resolved.conf.d/gpucluster.conf name
    # Otherwise a node resolves its own name to a link-local or loopback address, which other nodes cannot reach.
    name=$(hostname)
    put_line /etc/hosts "$(imds meta-data/local-ipv4) $name.$ZONE $name"
    if systemctl cat systemd-resolved.service >/dev/null 2>&1; then
        printf '[Resolve]\nDomains=%s\nCache=no-negative\n' "$ZONE" | put_file "$conf" 0644 root:root
        service_up systemd-resolved "$conf"
    else
        put_line /etc/resolv.conf "search $ZONE"
    fi
}
