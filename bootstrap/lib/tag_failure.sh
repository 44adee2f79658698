# tag_failure REASON: without munge a node cannot talk to Slurm; the head reads this tag and sets the node DOWN with it.
tag_failure() {
    aws_api put-tag "$(imds meta-data/instance-id)" gpucluster:boot-failure "$1"
}
