# aws_api VERB ARGUMENT...: calls AWS for the steps, so that an image needs neither the AWS CLI nor boto3. The program's head
# lists the verbs. With -S Python does not load the system's packages, which it does not need, and starts in half the time.
aws_api() {
    PYTHONPATH=$BUNDLE python3 -S -B -m gpucluster_node.aws_api "$@"
}

# tag_failure REASON: without munge a node cannot talk to Slurm. The head node reads this tag and sets the node DOWN with the
# reason.
tag_failure() {
    aws_api put-tag "$(imds meta-data/instance-id)" gpucluster:boot-failure "$1"
}
