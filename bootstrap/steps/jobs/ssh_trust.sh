# The job user logs in from node to node without a password, and trusts the host keys that nodes wrote to /home at boot.
readonly KNOWN_HOSTS=/home/gpucluster/known_hosts

step_ssh_trust() {
    if [ "$ROLE" = head ]; then user_key "$JOB_USER"; fi
    publish_host_keys "$(hostname)"
    # UpdateHostKeys would copy keys to the user's own file, where they are wrong after a node has been replaced.
    put_file /etc/ssh/ssh_config.d/gpucluster.conf 0644 root:root <<EOF
KnownHostsCommand /usr/bin/find $KNOWN_HOSTS -type f -exec /usr/bin/cat {} +
UpdateHostKeys no
EOF
}

user_key() {
    local ssh=/home/$1/.ssh
    put_directory "$ssh" 0700 "$1:$1"
    if [ ! -e "$ssh/id_ed25519" ]; then
        ssh-keygen -q -t ed25519 -N '' -C "$1@$CLUSTER" -f "$ssh/id_ed25519"
        chown "$1:$1" "$ssh/id_ed25519" "$ssh/id_ed25519.pub"
    fi
    put_line "$ssh/authorized_keys" "$(<"$ssh/id_ed25519.pub")"
    put_mode "$ssh/authorized_keys" 0600 "$1:$1"
}

# publish_host_keys NODE: its host keys under each name and address of the node.
publish_host_keys() {
    local names key
    names="$1,$1.$ZONE,$(imds meta-data/local-ipv4)"
    put_directory "$KNOWN_HOSTS" 0755 root:root
    for key in /etc/ssh/ssh_host_*_key.pub; do
        awk -v names="$names" '{ print names, $1, $2 }' "$key"
    done | put_file "$KNOWN_HOSTS/$1" 0644 root:root
}
