# CUDA's toolkit. Frameworks include CUDA's libraries and cuDNN; the toolkit compiles what is built here, such as Horovod.
step_cuda() {
    local nvcc=/usr/local/cuda/bin/nvcc
    this_machine
    if [ "$GPUS" -eq 0 ]; then return; fi
    if [ ! -x "$nvcc" ]; then install_from_nvidia "cuda-toolkit-${CUDA_VERSIONS[2]//./-}"; fi
    check_version CUDA "$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')" "${CUDA_VERSIONS[@]}"
}
