# The head node exports /home to the VPC, unless it is on a file system of its own.
step_home_export() {
    local exports=/etc/exports.d/gpucluster.exports
    if [ "$HOME_ON" != head-nfs ]; then return; fi
    exports_of /home | put_file "$exports" 0644 root:root
    nfs_server "$exports"
}
