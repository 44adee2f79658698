#!/bin/sh
# Makes a plain image of a root file system. usage: plain.sh ROOT REPOSITORY PACKAGE...
# Runs outside the root as the last hook of mmdebstrap, whose apt acts on the root: packages are fetched and not installed.
set -eu
root=$1 repository=$2
shift 2

APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -q -y --download-only install "$@"
install -d -m 0755 "$root/$repository"
mv "$root"/var/cache/apt/archives/*.deb "$root/$repository/"
cd "$root/$repository"
for package in *.deb; do
    dpkg-deb --field "$package"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$package" "$(stat -c %s "$package")" \
        "$(sha256sum "$package" | cut -d' ' -f1)"
done >Packages

# The only source of packages, with and without a network.
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/var/lib/apt/lists/*
echo "deb [trusted=yes] file:/$repository ./" >"$root/etc/apt/sources.list"

# The stand-ins for NVIDIA's and EFA's software.
rm -rf "$root/usr/local/cuda" "$root/opt/amazon" "$root/opt/nvidia" "$root/usr/lib/systemd/system/nvidia-fabricmanager.service"
rm -f "$root"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 "$root"/usr/local/lib/libgdrapi.so.* "$root"/usr/bin/nvidia-smi "$root"/usr/bin/nv-fabricmanager \
    "$root"/usr/bin/dcgmi "$root"/usr/bin/fi_info
