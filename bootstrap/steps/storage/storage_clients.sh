# What an image takes along for the file systems of its clusters. Nodes set it up when they boot.
step_storage_clients() {
    local kind
    for kind in "${FILE_SYSTEMS[@]}"; do
        # shellcheck source=/dev/null
        source "$BUNDLE/steps/storage/${kind%%-*}.sh"
        "client_${kind//-/_}"
    done
    say "for file systems: ${FILE_SYSTEMS[*]}"
}
