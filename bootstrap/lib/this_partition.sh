# The bundle's data of this node's partition.

# this_partition: sources partitions/NAME.sh. Each step calls it first, because each has its own shell. On a machine without a
# partition, the role's script sets the values.
# shellcheck disable=SC2034 # the steps read them
this_partition() {
    local node file
    if [ "$ROLE" != compute ]; then return; fi
    node=$(hostname) # Slurm's name: train-1 is the first node of train
    file=$BUNDLE/partitions/${node%-*}.sh
    EFA=yes SCRATCH=yes BEEGFS_ROLE=none
    if [ ! -e "$file" ]; then fail "the cluster file has no partition ${node%-*}"; fi
    # shellcheck source=/dev/null
    source "$file"
}
