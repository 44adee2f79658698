# shellcheck shell=sh source=/dev/null
# Users' shells on the head node get the jobs' credentials. Root has the node's own role. Keys that a user has set take precedence.
if [ "$(id -u)" -ne 0 ]; then
    AWS_CONTAINER_CREDENTIALS_FULL_URI=$(. /opt/gpucluster/bundle/cluster.sh && echo "$JOB_CREDENTIALS")
    AWS_REGION=${AWS_REGION:-$(. /opt/gpucluster/bundle/cluster.sh && echo "$REGION")}
    AWS_DEFAULT_REGION=${AWS_DEFAULT_REGION:-$(. /opt/gpucluster/bundle/cluster.sh && echo "$REGION")}
    export AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_REGION AWS_DEFAULT_REGION
fi
