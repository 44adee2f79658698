# DCGM, NVIDIA's diagnostics: `dcgmi diag` shows whether a GPU or the program is broken.
step_dcgm() {
    this_machine
    if [ "$GPUS" -eq 0 ]; then return; fi
    if ! command -v dcgmi >/dev/null; then
        install_from_nvidia "datacenter-gpu-manager-${DCGM_VERSIONS[2]}-cuda${CUDA_VERSIONS[2]%%.*}"
    fi
    check_version DCGM "$(dcgmi --version | sed -n 's/^dcgmi *version: *//p')" "${DCGM_VERSIONS[@]}"
}
