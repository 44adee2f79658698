# EFA: kernel module, libfabric, Open MPI and the plugin for NCCL, all from Amazon's installer.
readonly AMAZON=/opt/amazon

step_efa() {
    this_machine
    if [ "$EFA_INTERFACES" -eq 0 ] || without_efa; then return; fi
    if [ ! -e "$AMAZON/efa_installed_packages" ]; then install_efa; fi
    check_version "EFA installer" "$(sed -n 's/^# EFA installer version: //p' "$AMAZON/efa_installed_packages")" "${EFA_VERSIONS[@]}"
    if [ "$GPUS" -gt 0 ]; then check_version aws-ofi-nccl "$(ofi_nccl_version)" "${OFI_NCCL_VERSIONS[@]}"; fi
    if [ "$ROLE" = compute ]; then check_interfaces; fi
}

# A partition may do without (efa: off).
without_efa() {
    local node partition
    node=$(hostname)
    for partition in "${WITHOUT_EFA[@]}"; do
        if [ "${node%-*}" = "$partition" ]; then return; fi
    done
    return 1
}

install_efa() {
    local folder version=${EFA_VERSIONS[2]}
    folder=$(mktemp -d)
    download "https://efa-installer.amazonaws.com/aws-efa-installer-$version.tar.gz" "$folder/installer.tar.gz"
    tar -xf "$folder/installer.tar.gz" -C "$folder"
    update_package_lists
    (cd "$folder/aws-efa-installer" && DEBIAN_FRONTEND=noninteractive ./efa_installer.sh --yes)
    rm -rf "$folder"
}

# The plugin says it when it is loaded, so its file holds the words.
ofi_nccl_version() {
    local file
    for file in "$AMAZON"/ofi-nccl/lib/libnccl-net*.so "$AMAZON"/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net*.so; do
        if [ -e "$file" ]; then
            grep -aoE -m 1 'aws-ofi-nccl [0-9]+(\.[0-9]+)+' "$file" | sed -n '1s/.* //p'
            return
        fi
    done
}

# They may come a little later than the machine.
check_interfaces() {
    local found
    for _ in {1..5}; do
        found=$(PATH=$AMAZON/efa/bin:$PATH fi_info -p efa -t FI_EP_RDM 2>/dev/null | grep -c '^provider: efa' || true)
        if [ "$found" -eq "$EFA_INTERFACES" ]; then
            say "EFA interfaces $found"
            return
        fi
        sleep 3
    done
    fail "fi_info finds $found EFA interfaces, $INSTANCE_TYPE has $EFA_INTERFACES: this instance is broken, Slurm will replace it"
}
