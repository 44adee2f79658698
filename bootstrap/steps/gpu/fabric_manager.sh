# Fabric manager: without it no program starts on GPUs connected by NVSwitch (P4d and newer, eight to a node).
step_fabric_manager() {
    local driver found
    this_machine
    if [ "$NVSWITCH" != yes ]; then return; fi
    driver=$(nvidia_smi --id=0 --query-gpu=driver_version --format=csv,noheader)
    if ! command -v nv-fabricmanager >/dev/null; then install_fabric_manager "$driver"; fi
    found=$(nv-fabricmanager --version | sed -n 's/^.*version is *: *//p')
    if [ "$found" != "$driver" ]; then
        fail "fabric manager ${found:-of no version} does not suit the driver $driver: their versions must be the same"
    fi
    if [ "$NVLSM" = yes ]; then nvlink_subnet_manager; fi
    service_up nvidia-fabricmanager
    await_fabric
    say "fabric manager $found"
}

# install_fabric_manager DRIVER: installs exactly the driver's version. NVIDIA's repository calls the package
# nvidia-fabricmanager; the name with the branch is virtual there since 580. Ubuntu's archive names it by the branch, often in an
# older version.
install_fabric_manager() {
    local package
    use_nvidia_packages
    update_package_lists
    package=$(in_version "$1" nvidia-fabricmanager "nvidia-fabricmanager-${1%%.*}")
    if [ -z "$package" ]; then
        fail "apt has no nvidia-fabricmanager $1, the driver's version: bake an image that has both in one version"
    fi
    install_packages "$package"
}

# in_version VERSION PACKAGE...: PACKAGE=VERSION-REVISION of the first package that apt can install in that version.
in_version() {
    local version=$1
    shift
    apt-cache madison "$@" | awk -F ' *[|] *' -v version="$version-" \
        'index($2, version) == 1 && !found++ { sub(/^ */, "", $1); print $1 "=" $2 }'
}

# P6 configures its NVSwitches through ConnectX cards, with the NVLink subnet manager. Without it or the cards' InfiniBand modules the
# fabric stays in progress, and CUDA does not start (error 802).
nvlink_subnet_manager() {
    if [ ! -e /opt/nvidia/nvlsm/sbin/nvlsm ]; then install_from_nvidia nvlsm; fi
    infiniband_modules
}

# Ubuntu keeps these modules in linux-modules-extra for kernels up to 6.17, and in linux-modules for 7.0, which has no extra package.
infiniband_modules() {
    local said extra
    if said=$(modprobe --all mlx5_ib ib_umad 2>&1); then return; fi
    extra=linux-modules-extra-$(uname -r)
    update_package_lists
    if ! apt-cache show "$extra" >/dev/null 2>&1; then fail "mlx5_ib and ib_umad do not load: ${said%%$'\n'*}"; fi
    install_packages "$extra"
    modprobe --all mlx5_ib ib_umad
}

# GPUs are registered with the fabric minutes after fabric manager has started. A100 has no such state.
await_fabric() {
    local states
    for _ in {1..60}; do
        states=$(nvidia_smi -q | fabric_states)
        case $states in "Completed Success" | N/A | "") return ;; esac
        sleep 5
    done
    fail "NVLink's fabric is not ready, nvidia-smi -q shows: $states. See journalctl -u nvidia-fabricmanager"
}

# Prints each state and status in the GPUs' sections Fabric once.
fabric_states() {
    sed -nE '/^ *Fabric$/,/^ *Status /s/^ *(State|Status) *: //p' | sort -u | paste -sd' '
}
