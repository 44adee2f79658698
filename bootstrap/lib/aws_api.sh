# aws_api VERB ARGUMENT...: what steps ask of AWS. No image has to bring the AWS CLI or boto3 for it; the program's head lists the verbs.
# -S: without the system's packages, which it does not need, Python starts in half the time.
aws_api() {
    PYTHONPATH=$BUNDLE python3 -S -B -m gpucluster_node.aws_api "$@"
}
