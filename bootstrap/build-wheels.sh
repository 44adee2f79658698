#!/usr/bin/env bash
# Collects the wheels of the jobs' Python environments in a folder, builds Horovod's, and makes stand-ins for what only GPUs need.
# usage: build-wheels.sh OUT_DIR     Needs python3.11, g++ and, for Horovod over MPI, libopenmpi-dev. Does nothing where all is there.
#
# OUT_DIR holds what environments share; OUT_DIR/NAME is for the environment NAME alone: a Horovod for torch and one for TensorFlow
# have the same file name.
set -euo pipefail

HERE=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
readonly PYTHON=${PYTHON:-python3.11}
readonly BUILD_TOOLS=("setuptools<81" wheel "cmake<4" cloudpickle pyyaml psutil cffi packaging)
# Of GPUs, gigabytes in all: the local cloud's machines have none, and run the CPU's kind under these names.
readonly FOR_GPUS='^(nvidia-.*|cuda-.*|triton|mxnet-cu112|tensorflow|smdistributed-dataparallel)=='
# The newest torch serves as the older ones too, which exist for GPUs only.
readonly OLDER_TORCH='^torch==(2\.4\.1|2\.7\.1)$'

# shellcheck source=steps/horovod_wheel.sh
source "$HERE/steps/horovod_wheel.sh"
# shellcheck source=steps/interpreter.sh
source "$HERE/steps/interpreter.sh"

# complete OUT LOCK: whether OUT alone can install the lock.
complete() {
    PIP_FIND_LINKS='' "$PYTHON" -m pip install --quiet --dry-run --ignore-installed --no-deps --no-index \
        --find-links "$1" --find-links "$1/$(basename "$2" .txt)" -r <(pins "$2") >/dev/null 2>&1
}

pins() {
    grep -E '^[a-z]' "$1"
}

# collect OUT LOCK
collect() {
    local out=$1 lock=$2 own
    own=$out/$(basename "$lock" .txt)
    echo "collecting the wheels of ${lock##*/}" >&2
    mkdir -p "$own"
    "$PYTHON" -m pip wheel --quiet --no-deps --find-links "$out" -w "$out" \
        -r <(pins "$lock" | grep -Ev "^horovod==|$FOR_GPUS|$OLDER_TORCH")
    if loads_cuda "$out" "$lock"; then
        "$PYTHON" -m pip wheel --quiet --no-deps --find-links "$out" -w "$out" -r <(pins "$lock" | grep -E "$FOR_GPUS")
    else
        stand_ins "$out" "$lock"
    fi
    if pins "$lock" | grep -q '^horovod==' && ! compgen -G "$own/horovod-*.whl" >/dev/null; then
        build_horovod "$out" "$lock" "$own"
    fi
}

# loads_cuda OUT LOCK: whether its torch is the newest and not the build for CPUs, so that it does not load without CUDA's libraries.
loads_cuda() {
    pins "$2" | grep '^torch==' | grep -Evq "$OLDER_TORCH" && ! compgen -G "$1/torch-*+cpu-*.whl" >/dev/null
}

# collect_uv OUT: what makes the environments' Python 3.11.
collect_uv() {
    local pip=("$PYTHON" -m pip download --quiet --no-deps --dest "$1")
    PIP_FIND_LINKS='' "${pip[@]}" --no-index --find-links "$1" "$UV" >/dev/null 2>&1 || "${pip[@]}" "$UV"
}

# stand_ins OUT LOCK
stand_ins() {
    local pin
    while read -r pin; do "$PYTHON" "$HERE/stand_in_wheels.py" empty "$1" "$pin"; done < <(pins "$2" | grep -E "$FOR_GPUS" || true)
    while read -r pin; do "$PYTHON" "$HERE/stand_in_wheels.py" torch "$1" "$pin"; done < <(pins "$2" | grep -E "$OLDER_TORCH" || true)
}

# build_horovod OUT LOCK OWN: once for torch and once for TensorFlow; it takes one to five minutes. Environments for GPUs get the
# same one: here they run the CPU's torch and TensorFlow.
build_horovod() {
    local out=$1 lock=$2 own=$3 like venv
    like=$(horovod_framework "$lock")
    case $like in torch) like=horovod ;; *) like=tensorflow-cpu ;; esac
    if compgen -G "$out/$like/horovod-*.whl" >/dev/null; then
        cp "$out/$like"/horovod-*.whl "$own"
        return
    fi
    venv=$scratch/venv-$like
    "$PYTHON" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --find-links "$out" "${BUILD_TOOLS[@]}" \
        -r <(pins "$HERE/environments/$like.txt" | grep -E '^(torch|tensorflow-cpu|numpy)==')
    horovod_wheel "$venv/bin/python" "$HERE/environments/$like.txt" "$own"
}

main() {
    local out=$1 lock
    mkdir -p "$out"
    # One Horovod lay among what is shared once.
    rm -f "$out"/horovod-*.whl
    collect_uv "$out" >&2
    # Torch first: the older ones are made of its wheel; then the Horovod that is theirs as well.
    for lock in "$HERE"/environments/{torch,horovod,*}.txt; do
        if complete "$out" "$lock"; then continue; fi
        collect "$out" "$lock" >&2
        complete "$out" "$lock" || { echo "$out does not hold all of ${lock##*/}" >&2; return 1; }
    done
    echo "every wheel is in $out"
}

if [ $# -ne 1 ]; then
    sed -n '3s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
main "$1"
