# NCCL, for programs built here and for nccl-tests; PyTorch has its own. A Deep Learning AMI keeps it with CUDA.
step_nccl() {
    this_machine
    if [ "$GPUS" -eq 0 ]; then return; fi
    if [ -z "$(nccl_version)" ]; then
        install_from_nvidia "libnccl2=${NCCL_VERSIONS[2]}" "libnccl-dev=${NCCL_VERSIONS[2]}"
    fi
    check_version NCCL "$(nccl_version)" "${NCCL_VERSIONS[@]}"
}

nccl_version() {
    library_version nccl /usr/local/cuda/lib /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu
}
