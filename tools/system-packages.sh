#!/usr/bin/env bash
# Installs those of the named Debian packages that are missing. Without root or apt it prints what to do and exits with code 0:
# commands that need a missing package report it themselves.
# usage: system-packages.sh PACKAGE...
set -euo pipefail

if ! command -v dpkg-query >/dev/null; then
    echo "== no Debian packages here: booting nodes needs Debian or Ubuntu; everything else works" >&2
    exit 0
fi
missing=()
for package in "$@"; do
    dpkg-query --show --showformat='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
if [ "$(id -u)" != 0 ]; then
    echo "== missing Debian packages; booting nodes needs: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 0
fi
echo "== Debian packages: ${missing[*]}"
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
