# Watches for a new bundle and applies it.
step_update() {
    node_program
    node_service update "Apply a new bundle of boot scripts"
}
