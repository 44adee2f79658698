# Lustre's client, and where nodes read which file systems exist for jobs.
# On the head node: the reason why it has no client.
# shellcheck disable=SC2034 # head.sh writes it, storage/fsx.sh reads it
readonly LUSTRE_MISSING=/var/lib/gpucluster/lustre.missing
readonly LUSTRE_KEY=/usr/share/keyrings/fsx-lustre.asc LUSTRE_LIST=/etc/apt/sources.list.d/fsx-lustre.list
readonly LUSTRE_EFA=/opt/aws/configure-efa-fsx-lustre-client
# shellcheck disable=SC2034 # steps read them
readonly JOB_LUSTRE=/home/gpucluster/lustre LUSTRE_MARKS=/run/gpucluster-lustre/jobs

lustre_client() {
    local kernel
    kernel=$(uname -r)
    # First: what is installed next must fit the running kernel, and the next boot must use that kernel.
    hold_kernel
    if ! command -v mount.lustre >/dev/null || ! modprobe lustre 2>/dev/null; then install_lustre "$kernel"; fi
    modprobe lustre || fail "kernel $kernel does not load Lustre's module: dmesg shows the reason; another image may work"
    say "Lustre client $(lustre_version), kernel $kernel"
}

# Not lustre-client-modules-aws, which follows the newest kernel and installs it.
install_lustre() {
    local codename
    codename=$(
        # shellcheck source=/dev/null
        source /etc/os-release
        echo "${VERSION_CODENAME:-}"
    )
    mkdir -p "${LUSTRE_KEY%/*}"
    download https://fsx-lustre-client-repo-public-keys.s3.amazonaws.com/fsx-ubuntu-public-key.asc "$LUSTRE_KEY"
    put_file "$LUSTRE_LIST" 0644 root:root \
        <<<"deb [signed-by=$LUSTRE_KEY] https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu $codename main"
    install_packages "lustre-client-modules-$1" lustre-client-utils ||
        fail "FSx has no Lustre client for kernel $1 of $codename: choose an image with a kernel that its repository lists"
}

lustre_version() {
    local said
    said=$(lfs --version 2>/dev/null || true)
    echo "${said##* }"
}

download_lustre_efa() {
    local folder
    folder=$(mktemp -d)
    download "https://docs.aws.amazon.com/fsx/latest/LustreGuide/samples/configure-efa-fsx-lustre-client.zip" "$folder/a.zip"
    python3 -m zipfile -e "$folder/a.zip" "$folder"
    mkdir -p "${LUSTRE_EFA%/*}"
    mv "$folder/configure-efa-fsx-lustre-client" "$LUSTRE_EFA"
    rm -rf "$folder"
}
