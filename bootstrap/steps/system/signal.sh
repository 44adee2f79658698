# Reports to CloudFormation's wait condition whether this bundle was applied.
step_signal() {
    local mark=/var/lib/gpucluster/signalled url
    url=$(wait_handle_url)
    if grep -qsxF -- "$url" "$mark"; then return; fi
    signal SUCCESS "$CLUSTER is ready"
    put_file "$mark" 0600 root:root <<<"$url"
}
