# CloudFormation's wait condition.

# The handle belongs to the deployment of this bundle, and is part of it.
wait_handle_url() {
    json_value "$(<"$BUNDLE/bundle.json")" wait_handle_url
}

# signal STATUS REASON
signal() {
    signal_body "$@" |
        curl -sSf --retry 5 --retry-all-errors -X PUT -H 'Content-Type:' --data-binary @- "$(wait_handle_url)" >/dev/null
}

signal_body() {
    python3 -c 'import json, sys
status, reason, bundle = sys.argv[1:]
print(json.dumps({"Status": status, "Reason": reason, "UniqueId": bundle, "Data": reason}))' "$1" "$2" "${BUNDLE##*/}"
}
