# What the bundle says of the partition that this node is of.

# this_partition: sets what partitions/NAME.sh sets. Steps call it first; each has a shell of its own. A machine of no
# partition is told by its role's script.
# shellcheck disable=SC2034 # the steps read them
this_partition() {
    local node file
    if [ "$ROLE" != compute ]; then return; fi
    node=$(hostname) # as Slurm names it: train-1 is the first of train
    file=$BUNDLE/partitions/${node%-*}.sh
    EFA=yes SCRATCH=yes BEEGFS_ROLE=none
    if [ ! -e "$file" ]; then fail "the cluster file has no partition ${node%-*}: nothing is known of its nodes"; fi
    # shellcheck source=/dev/null
    source "$file"
}
