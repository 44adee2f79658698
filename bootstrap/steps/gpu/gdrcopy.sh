# GDRCopy: EFA's plugin for NCCL uses it for small messages if EFA reads the GPUs' memory. NCCL works without it, so a module that
# does not build for this kernel, or a missing package, must not end the boot.
step_gdrcopy() {
    local status
    this_machine
    if [ "$GDRCOPY" != yes ]; then return; fi
    if [ -z "$(gdrcopy_version)" ]; then
        trap - ERR
        set +e
        (set -e; install_gdrcopy)
        status=$?
        set -e
        if [ "$status" -ne 0 ] || [ -z "$(gdrcopy_version)" ]; then
            # A half-configured package would make every later installation fail.
            dpkg --purge --force-depends gdrdrv-dkms libgdrapi >/dev/null 2>&1 || true
            say "warning: GDRCopy cannot be installed: NCCL works without it"
            return
        fi
    fi
    check_version GDRCopy "$(gdrcopy_version)" "${GDRCOPY_VERSIONS[@]}"
}

gdrcopy_version() {
    library_version gdrapi /usr/local/lib /usr/lib/x86_64-linux-gnu /usr/lib /usr/local/lib64
}

install_gdrcopy() {
    local version=${GDRCOPY_VERSIONS[2]} ubuntu folder url package
    ubuntu=$(distribution)
    ubuntu=${ubuntu/ubuntu2404/Ubuntu24_04}
    url="https://developer.download.nvidia.com/compute/redist/gdrcopy/CUDA%20${CUDA_VERSIONS[2]}/${ubuntu,}/x64"
    folder=$(mktemp -d)
    for package in gdrdrv-dkms libgdrapi; do
        download "$url/${package}_$version-1_amd64.$ubuntu.deb" "$folder/$package.deb"
    done
    install_packages "$folder"/*.deb
    rm -rf "$folder"
}
