# tag_failure REASON: without munge a node cannot talk to Slurm. The head node reads this tag and sets the node DOWN with the
# reason.
tag_failure() {
    aws_api put-tag "$(imds meta-data/instance-id)" gpucluster:boot-failure "$1"
}
