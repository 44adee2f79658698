# Lustre's client, if the cluster has an FSx for Lustre file system.
step_lustre_client() {
    if storage_has '"type": "fsx-lustre"'; then lustre_client; fi
}
