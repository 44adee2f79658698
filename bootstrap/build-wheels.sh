#!/usr/bin/env bash
# Collects every wheel of the jobs' Python environment in a folder, and builds Horovod's, which exists as source only.
# usage: build-wheels.sh OUT_DIR     Needs python3.11, g++ and, for Horovod over MPI, libopenmpi-dev. Does nothing where all is there.
set -euo pipefail

HERE=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
readonly LOCK=$HERE/environments/horovod.txt
readonly PYTHON=${PYTHON:-python3.11}
readonly BUILD_TOOLS=("setuptools<81" wheel "cmake<4" cloudpickle pyyaml psutil cffi packaging)

# shellcheck source=steps/horovod_wheel.sh
source "$HERE/steps/horovod_wheel.sh"

# complete OUT: whether OUT alone can install the lock.
complete() {
    PIP_FIND_LINKS='' "$PYTHON" -m pip download --quiet --no-index --no-deps --find-links "$1" --dest "$scratch/found" \
        -r "$LOCK" >/dev/null 2>&1
}

# collect OUT: an environment is made of what can be had, Horovod is built in it, and everything lands in OUT.
collect() {
    local out=$1
    "$PYTHON" -m pip wheel --quiet --no-deps --find-links "$out" -w "$out" -r <(grep -v '^horovod==' "$LOCK")
    if compgen -G "$out/horovod-*.whl" >/dev/null; then return; fi
    "$PYTHON" -m venv "$scratch/venv"
    "$scratch/venv/bin/python" -m pip install --quiet --find-links "$out" "${BUILD_TOOLS[@]}" "$(grep '^torch==' "$LOCK")"
    horovod_wheel "$scratch/venv/bin/python" "$LOCK" "$out"
}

main() {
    mkdir -p "$1"
    if complete "$1"; then
        echo "every wheel is in $1"
        return
    fi
    echo "collecting the wheels of $LOCK in $1; building Horovod takes one to five minutes" >&2
    collect "$1" >&2
    complete "$1"
    echo "every wheel is in $1"
}

if [ $# -ne 1 ]; then
    sed -n '3s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
main "$1"
