# Values that exist only after the deployment are in SSM, as JSON, under SSM_PATH.

# parameter NAME KEY: one value of the SSM parameter NAME.
parameter() {
    aws_api parameter "$SSM_PATH$1" "$2"
}

# json_value JSON KEY
json_value() {
    python3 -c 'import json, sys; print(json.loads(sys.argv[1])[sys.argv[2]])' "$1" "$2"
}
