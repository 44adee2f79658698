# Fabric manager: without it no program starts on GPUs that NVSwitch joins (P4d and newer, eight to a node).
step_fabric_manager() {
    local driver found
    this_machine
    if [ "$NVSWITCH" != yes ]; then return; fi
    if ! command -v nv-fabricmanager >/dev/null; then
        install_from_nvidia "nvidia-fabricmanager-${DRIVER_VERSIONS[2]}"
    fi
    driver=$(nvidia_smi --id=0 --query-gpu=driver_version --format=csv,noheader)
    found=$(nv-fabricmanager --version | awk '{ print $NF }')
    if [ "$found" != "$driver" ]; then
        fail "fabric manager $found does not suit the driver $driver: their versions must be the same"
    fi
    service_up nvidia-fabricmanager
    say "fabric manager $found"
}
