# The management service: which servers exist, with their numbers. A new generation starts without servers.
step_beegfs_management() {
    local mark=$FOLDER/generation
    if [ "$(cat "$mark" 2>/dev/null)" = "$GENERATION" ] && systemctl is-active --quiet beegfs-mgmtd; then return; fi
    if [ "$(cat "$mark" 2>/dev/null)" != "$GENERATION" ]; then
        beegfs_stop beegfs-mgmtd
        rm -rf "$FOLDER"
        put_directory "$FOLDER" 0700 root:root
        "beegfs_init_${BEEGFS_VERSION%%.*}"
        echo "$GENERATION" >"$mark"
    fi
    beegfs_start beegfs-mgmtd 8008
}

beegfs_init_7() {
    /opt/beegfs/sbin/beegfs-setup-mgmtd -p "$FOLDER" -C -f
}

# Its administration uses gRPC, with a certificate that this machine creates for itself.
beegfs_init_8() {
    local key=/etc/beegfs/key.pem certificate=/etc/beegfs/cert.pem
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj "/CN=$MANAGEMENT" \
        -addext "subjectAltName=DNS:$MANAGEMENT,DNS:localhost,IP:127.0.0.1" -keyout "$key" -out "$certificate" 2>/dev/null
    put_mode "$key" 0600 root:root
    put_mode "$certificate" 0644 root:root
    /opt/beegfs/sbin/beegfs-mgmtd --init --db-file "$FOLDER/mgmtd.sqlite"
}
