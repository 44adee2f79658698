# NVIDIA's driver, and a check that every GPU of the instance type is there.
step_nvidia_driver() {
    local found
    this_machine
    if [ "$GPUS" -eq 0 ]; then return; fi
    if ! command -v nvidia-smi >/dev/null; then install_driver; fi
    found=$(nvidia_smi --id=0 --query-gpu=driver_version --format=csv,noheader)
    check_version "NVIDIA driver" "$found" "${DRIVER_VERSIONS[@]}"
    found=$(nvidia_smi --list-gpus | grep -c "^GPU " || true)
    if [ "$found" -ne "$GPUS" ]; then
        fail "nvidia-smi lists $found GPUs, $INSTANCE_TYPE has $GPUS: this instance is broken, Slurm will replace it"
    fi
    say "GPUs $found"
}

# V100 needs the proprietary modules, Blackwell the open ones.
install_driver() {
    local branch=${DRIVER_VERSIONS[2]} package=nvidia-open
    if [ "$KERNEL_MODULE" = proprietary ]; then package=cuda-drivers; fi
    install_from_nvidia "linux-headers-$(uname -r)" "$package-$branch"
    modprobe nvidia
}
