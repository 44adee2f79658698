#!/bin/sh
# Creates what uv would download: an archive of Python 3.11 in the form of python-build-standalone's, from Debian's packages,
# and uv's list of downloads, which names it. usage: python_archive.sh ROOT SUITE PACKAGE...
# Runs outside the root as a hook of mmdebstrap, whose apt acts on the root: packages are fetched and not installed.
set -eu
root=$1 suite=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cd "$scratch"
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -q download "$@"
for package in *.deb; do dpkg-deb --extract "$package" unpacked; done

mkdir -p python/bin python/lib python/include
cp unpacked/usr/bin/python3.11 python/bin/
ln -s python3.11 python/bin/python3
cp -R unpacked/usr/lib/python3.11 python/lib/
cp -R unpacked/usr/include/python3.11 python/include/
# Debian's pyconfig.h only includes the architecture's file, which replaces it here.
cp unpacked/usr/include/x86_64-linux-gnu/python3.11/pyconfig.h python/include/python3.11/
rm -rf python/lib/python3.11/sitecustomize.py python/lib/python3.11/_distutils_system_mod.py \
    python/lib/python3.11/config-3.11-x86_64-linux-gnu

version=$(dpkg-deb --field libpython3.11-stdlib_*.deb Version)
version=${version%%-*}
archive=opt/python/cpython-$version-x86_64-unknown-linux-gnu-install_only.tar.gz
install -d -m 0755 "$root/opt/python"
tar --owner=root:0 --group=root:0 -czf "$root/$archive" python
# https://docs.astral.sh/uv/reference/settings/#python-downloads-json-url
cat >"$root/opt/python/downloads.json" <<JSON
{
  "cpython-$version-linux-x86_64-gnu": {
    "name": "cpython", "arch": {"family": "x86_64", "variant": null}, "os": "linux", "libc": "gnu",
    "major": 3, "minor": 11, "patch": ${version##*.}, "prerelease": "", "variant": null, "build": "1",
    "url": "file:///$archive", "sha256": "$(sha256sum "$root/$archive" | cut -d' ' -f1)"
  }
}
JSON

# The guest's own apt offers no Python 3.11, as Ubuntu 24.04's offers none.
sed -i "/ $suite /d" "$root/etc/apt/sources.list"
rm -rf "$root"/etc/apt/preferences.d/python3.11 "$root"/var/lib/apt/lists/*_dists_"$suite"_*
