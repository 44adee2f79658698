# What is known only after the deployment lies in SSM, as JSON, under SSM_PATH.

# parameter NAME KEY: one value of the SSM parameter NAME.
parameter() {
    local json
    json=$(aws ssm get-parameter --name "$SSM_PATH$1" --query Parameter.Value --output text)
    json_value "$json" "$2"
}

# json_value JSON KEY
json_value() {
    python3 -c 'import json, sys; print(json.loads(sys.argv[1])[sys.argv[2]])' "$1" "$2"
}
