# Files that BeeGFS's services read: configuration, shared secret, the one network interface.
step_beegfs_files() {
    local template interface
    interface=$(beegfs_interface)
    beegfs_secret
    for template in "$BUNDLE"/beegfs/*; do
        sed -e "s|@MANAGEMENT@|$MANAGEMENT|" -e "s|@INTERFACE@|$interface|" -e "s|@FOLDER@|$FOLDER|" "$template" |
            put_file "/etc/beegfs/${template##*/}" 0644 root:root
    done
}

# The interface of the default route. Nodes with EFA have more, and BeeGFS would announce all of them.
beegfs_interface() {
    local found
    found=$(ip -o -4 route show default | sed -n 's/.* dev \([^ ]*\).*/\1/p;q')
    if [ -z "$found" ]; then fail "no default route: BeeGFS cannot tell which network interface is the first"; fi
    echo "$found"
}

# Without it the services do not start; a client that has it is root on the file system.
beegfs_secret() {
    local file=/etc/beegfs/conn.auth arn secret
    if [ -s "$file" ]; then
        put_mode "$file" 0600 root:root
        return
    fi
    arn=$(parameter "$BEEGFS_PARAMETER" auth_secret_arn)
    secret=$(aws_api secret "$arn")
    printf %s "$secret" | put_file "$file" 0600 root:root
}
