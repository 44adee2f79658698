# Gives the machine the name of its Slurm node.
step_name() {
    local name=$ROLE
    if [ "$ROLE" = compute ]; then name=$(node_from_tag); fi
    put_file /etc/cloud/cloud.cfg.d/99-gpucluster.cfg 0644 root:root <<<'preserve_hostname: true'
    put_file /etc/hostname 0644 root:root <<<"$name"
    if [ "$(hostname)" != "$name" ]; then hostname "$name"; fi
}

# The head node tags the instances of a launch together, after it has written their addresses, so the tag may appear later
# than the machine. The intervals grow, because a thousand nodes may ask. Each interval is random, from half of its length to
# one and a half, so that nodes that boot together do not ask together.
node_from_tag() {
    local name wait
    for wait in 2 2 2 2 2 5 5 5 5 10 10 10 20 20 20 30 30 30 30 60; do
        name=$(aws_api node) || name=''  # a later call may succeed: the boot continues
        if [ -n "$name" ]; then
            echo "$name"
            return
        fi
        sleep $((wait / 2 + RANDOM % (wait + 1)))
    done
    fail "no tag gpucluster:node names a node for $(imds meta-data/instance-id) after about 300 s:" \
        "see /var/log/gpucluster/power.log on the head node"
}
