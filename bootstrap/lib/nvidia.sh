# NVIDIA's packages for Ubuntu, for images without its software.

# install_from_nvidia PACKAGE...
install_from_nvidia() {
    use_nvidia_packages
    install_packages "$@"
}

use_nvidia_packages() {
    local keyring
    if dpkg-query --show cuda-keyring >/dev/null 2>&1; then return; fi
    keyring=$(mktemp --suffix=.deb)
    download "https://developer.download.nvidia.com/compute/cuda/repos/$(distribution)/x86_64/cuda-keyring_1.1-1_all.deb" "$keyring"
    dpkg --install "$keyring"
    rm -f "$keyring"
}

# download URL FILE: a transfer that stalls for 30 s is begun again.
download() {
    curl -sSfL --connect-timeout 10 --speed-limit 1000 --speed-time 30 --retry 3 -m 600 -o "$2" "$1" ||
        fail "cannot fetch $1: has this subnet a route to the internet?"
}

# distribution: NVIDIA's name of it, for example ubuntu2404.
distribution() {
    local ID='' VERSION_ID=''
    # shellcheck source=/dev/null
    source /etc/os-release
    echo "$ID${VERSION_ID//./}"
}

# nvidia-smi prints errors to standard output.
nvidia_smi() {
    local said
    said=$(nvidia-smi "$@") || fail "nvidia-smi: ${said%%$'\n'*}"
    echo "$said"
}
