# EFA: kernel module, libfabric, Open MPI and the plugin for NCCL, all from Amazon's installer.
readonly AMAZON=/opt/amazon

step_efa() {
    this_machine
    this_partition
    if [ "$EFA_INTERFACES" -eq 0 ] || [ "$EFA" = no ]; then return; fi
    if [ ! -e "$AMAZON/efa_installed_packages" ]; then install_efa; fi
    check_version "EFA installer" "$(sed -n 's/^# EFA installer version: //p' "$AMAZON/efa_installed_packages")" "${EFA_VERSIONS[@]}"
    if [ "$GPUS" -gt 0 ]; then ofi_nccl; fi
    if [ "$ROLE" = compute ]; then check_interfaces; fi
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

ofi_nccl() {
    local file plugin=''
    for file in "$AMAZON"/ofi-nccl/lib/libnccl-net*.so "$AMAZON"/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net*.so; do
        if [ -z "$plugin" ] && [ -e "$file" ]; then plugin=$file; fi
    done
    if [ -z "$plugin" ]; then fail "no aws-ofi-nccl in $AMAZON/ofi-nccl: without it NCCL uses TCP"; fi
    # It prints its version when it is loaded, so its file contains the text.
    check_version aws-ofi-nccl "$(grep -aoE 'aws-ofi-nccl [0-9]+(\.[0-9]+)+' "$plugin" | sed -n '1s/.* //p')" "${OFI_NCCL_VERSIONS[@]}"
    findable "$(dirname "$plugin")"
}

# findable FOLDER: NCCL looks for the plugin where the loader looks, and silently uses TCP if there is none.
findable() {
    if grep -rqsF "$1" /etc/ld.so.conf.d; then return; fi
    put_file /etc/ld.so.conf.d/gpucluster-ofi-nccl.conf 0644 root:root <<<"$1"
    ldconfig
}

# The interfaces may appear a little later than the machine.
check_interfaces() {
    local found
    for _ in {1..5}; do
        found=$(efa_devices | wc -l)
        if [ "$found" -ge "$EFA_INTERFACES" ]; then
            say "EFA interfaces $found"
            return
        fi
        sleep 3
    done
    fail "fi_info lists $found EFA interfaces, $INSTANCE_TYPE has $EFA_INTERFACES: this instance is broken, Slurm will replace it"
}

# libfabric lists a device once for each fabric (efa-direct and efa since 2.1) and endpoint type, under the domains rdmap16s27-rdm
# and rdmap16s27-dgrm.
efa_devices() {
    { PATH=$AMAZON/efa/bin:$PATH fi_info -p efa -t FI_EP_RDM 2>/dev/null || true; } |
        sed -nE 's/^ *domain: (.*)-(rdm|dgrm)$/\1/p' | sort -u
}
