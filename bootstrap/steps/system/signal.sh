# Tells CloudFormation's wait condition what became of this bundle.
step_signal() {
    local mark=/var/lib/gpucluster/signalled url
    url=$(wait_handle_url)
    if grep -qsxF -- "$url" "$mark"; then return; fi
    signal SUCCESS "$CLUSTER is ready"
    put_file "$mark" 0600 root:root <<<"$url"
}
