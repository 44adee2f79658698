# Installs the file systems' clients into an image. Nodes configure them when they boot.
step_storage_clients() {
    local kind
    for kind in "${FILE_SYSTEMS[@]}"; do
        # shellcheck source=/dev/null
        source "$BUNDLE/steps/storage/${kind%%-*}.sh"
        "client_${kind//-/_}"
    done
    say "for file systems: ${FILE_SYSTEMS[*]}"
}
