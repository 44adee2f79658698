# Each user logs in from node to node without a password, and trusts the host keys that nodes wrote to /home at boot.
readonly KNOWN_HOSTS=/home/gpucluster/known_hosts

step_ssh_trust() {
    if [ "$ROLE" = head ]; then user_keys; fi
    publish_host_keys "$(hostname)"
    # A node that boots writes NODE.new and renames it. If the command fails, because a file is gone, ssh does not connect.
    # UpdateHostKeys would copy keys to the user's own file, where they are wrong after a node has been replaced.
    put_file /etc/ssh/ssh_config.d/gpucluster.conf 0644 root:root <<EOF
KnownHostsCommand /usr/bin/find $KNOWN_HOSTS -ignore_readdir_race -type f -not -name *.new -exec /usr/bin/cat {} +
UpdateHostKeys no
EOF
}

user_keys() {
    local name key
    put_program bin/user-key
    user_key "$JOB_USER"
    if [ ! -e "$BUNDLE/users" ]; then return; fi
    while read -r name _ _ _ _ key; do
        user_key "$name" "$key" || say "the keys of $name could not be set up: look at /home/$name/.ssh"
    done <"$BUNDLE/users"
}

# user_key NAME [KEY]: ~/.ssh may contain anything that its user put there, even a pipe that blocks its reader.
user_key() {
    timeout --kill-after=5 20 runuser -u "$1" -- /opt/gpucluster/bin/user-key "$CLUSTER" "${2:-}" </dev/null
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
