# Tells CloudFormation's wait condition what became of this bundle.
step_signal() {
    local mark=/var/lib/gpucluster/signalled
    if grep -qsxF "$BUNDLE" "$mark"; then return; fi
    signal SUCCESS "$CLUSTER is ready"
    put_file "$mark" 0644 root:root <<<"$BUNDLE"
}

# signal STATUS REASON: the handle is that of this bundle's own deployment.
signal() {
    local url
    url=$(json_value "$(<"$BUNDLE/bundle.json")" wait_handle_url)
    signal_body "$@" | curl -sSf --retry 5 --retry-all-errors -X PUT -H 'Content-Type:' --data-binary @- "$url" >/dev/null
}

signal_body() {
    python3 -c 'import json, sys
status, reason, bundle = sys.argv[1:]
print(json.dumps({"Status": status, "Reason": reason, "UniqueId": bundle, "Data": reason}))' "$1" "$2" "${BUNDLE##*/}"
}
