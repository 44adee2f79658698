# What an image takes along for the file systems of its clusters. Nodes set it up when they boot.
step_storage_clients() {
    local kind
    for kind in "${FILE_SYSTEMS[@]}"; do
        case $kind in
        lustre) lustre_client ;;
        lustre-efa) if [ ! -e "$LUSTRE_EFA/setup.sh" ]; then download_lustre_efa; fi ;;
        efs) if ! command -v stunnel >/dev/null; then without_services install_packages stunnel4; fi ;;
        esac
    done
    say "for file systems: ${FILE_SYSTEMS[*]}"
}
