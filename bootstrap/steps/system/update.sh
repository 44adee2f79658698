# Watches for a new bundle and applies it.
step_update() {
    node_program
    rm -f /var/lib/gpucluster/inherited  # this run does what it asks for
    node_service update head.update "Apply a new bundle of boot scripts"
}
