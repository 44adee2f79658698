# enroot and pyxis, if cluster.yaml has containers: true. A Deep Learning AMI has neither, so nodes download both at each boot
# unless the image has them. slurm_head.sh adds the plug-in to Slurm's configuration.
readonly PYXIS=/usr/local/lib/slurm/spank_pyxis.so

step_container_runtime() {
    if [ "$CONTAINERS" != yes ]; then return; fi
    this_machine
    if ! command -v enroot >/dev/null; then install_enroot; fi
    if [ "$GPUS" -gt 0 ] && ! command -v nvidia-container-cli >/dev/null; then install_from_nvidia nvidia-container-toolkit; fi
    if [ ! -e "$PYXIS" ]; then install_pyxis; fi
    enroot_folders
    # Ubuntu 24.04 allows user namespaces only for programs with an AppArmor profile; enroot creates them as the job's user.
    put_file /etc/sysctl.d/91-gpucluster-containers.conf 0644 root:root <<<'kernel.apparmor_restrict_unprivileged_userns = 0'
    sysctl --quiet --ignore --load=/etc/sysctl.d/91-gpucluster-containers.conf || say "user namespaces stay restricted"
    check_version enroot "$(enroot version)" "${ENROOT_VERSIONS[@]}"
    say "pyxis in $PYXIS"
}

install_enroot() {
    local version=${ENROOT_VERSIONS[2]} folder package
    folder=$(mktemp -d)
    for package in enroot enroot+caps; do
        download "https://github.com/NVIDIA/enroot/releases/download/v$version/${package}_$version-1_amd64.deb" "$folder/$package.deb"
    done
    install_packages "$folder"/*.deb
    rm -rf "$folder"
}

# A plug-in must be built for exactly the Slurm that loads it.
install_pyxis() {
    local version=${PYXIS_VERSIONS[2]} folder
    install_packages libslurm-dev gcc make
    folder=$(mktemp -d)
    download "https://github.com/NVIDIA/pyxis/archive/refs/tags/v$version.tar.gz" "$folder/pyxis.tar.gz"
    tar -xf "$folder/pyxis.tar.gz" -C "$folder"
    make -s -C "$folder/pyxis-$version"
    install -D -m 0755 "$folder/pyxis-$version/spank_pyxis.so" "$PYXIS"
    rm -rf "$folder"
}

# Images are large, so they are on the instance's own disks if it has any; see scratch.sh. Only root makes folders in these, before each
# job: another user could make a folder of that name first, and own what the job's user runs.
enroot_folders() {
    local scratch=/var/lib/enroot
    if mountpoint -q /opt/dlami/nvme; then scratch=/opt/dlami/nvme; fi
    if mountpoint -q /scratch; then scratch=/scratch/containers; fi
    put_directory "$scratch/enroot-cache" 0755 root:root
    put_directory "$scratch/enroot-data" 0755 root:root
    put_file /etc/tmpfiles.d/gpucluster-enroot.conf 0644 root:root <<<'d /run/enroot 0755 root root'
    put_directory /run/enroot 0755 root:root
    put_program prolog.d/21-enroot
    put_file /etc/enroot/enroot.conf 0644 root:root <<EOL
ENROOT_RUNTIME_PATH /run/enroot/user-\$(id -u)
ENROOT_CACHE_PATH $scratch/enroot-cache/user-\$(id -u)
ENROOT_DATA_PATH $scratch/enroot-data/user-\$(id -u)
EOL
}
