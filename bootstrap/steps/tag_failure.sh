# tag_failure REASON: without munge a node cannot talk to Slurm; the head reads this tag and sets the node DOWN with it.
tag_failure() {
    local id tags
    id=$(imds meta-data/instance-id)
    tags=$(python3 -c 'import json, sys
print(json.dumps([{"Key": "gpucluster:boot-failure", "Value": sys.argv[1][:250]}]))' "$1")
    aws ec2 create-tags --resources "$id" --tags "$tags"
}
