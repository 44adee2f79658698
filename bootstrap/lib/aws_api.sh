# aws_api VERB ARGUMENT...: calls AWS for the steps, so that an image needs neither the AWS CLI nor boto3. The program's head
# lists the verbs. With -S Python does not load the system's packages, which it does not need, and starts in half the time.
aws_api() {
    PYTHONPATH=$BUNDLE python3 -S -B -m gpucluster_node.aws_api "$@"
}
