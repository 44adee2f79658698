#!/usr/bin/env bash
# Collects the wheels of the jobs' Python environments in a folder, builds Horovod's, and makes stand-ins for packages that need
# GPUs.
# usage: build-wheels.sh OUT_DIR [ENVIRONMENT...]     Needs python3.11, g++ and, for Horovod over MPI, libopenmpi-dev.
#
# Without names: every environment. Does nothing if all wheels are there. A built Horovod is kept, by its versions, in
# $HOROVOD_CACHE (default: ~/.cache/gpucluster/horovod) and reused, even after OUT_DIR was deleted.
#
# OUT_DIR has the wheels that environments share, and OUT_DIR/NAME those of the environment NAME: a Horovod for torch and one for
# TensorFlow have the same file name.
set -euo pipefail

HERE=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
readonly PYTHON=${PYTHON:-python3.11}
readonly HOROVOD_CACHE=${HOROVOD_CACHE:-~/.cache/gpucluster/horovod}
readonly BUILD_TOOLS=("setuptools<81" wheel "cmake<4" cloudpickle pyyaml psutil cffi packaging)
# Packages for GPUs, gigabytes in all: the local cloud's machines have no GPU, and run the CPU builds under these names.
readonly FOR_GPUS='^(nvidia-.*|cuda-.*|triton|mxnet-cu112|tensorflow|smdistributed-dataparallel)=='
# The newest torch also stands in for older versions, which exist only for GPUs.
readonly OLDER_TORCH='^torch==(2\.4\.1|2\.7\.1)$'
# For the newest torch. No environment has it, but many programs that people bring import it.
readonly TORCHVISION=torchvision==0.28.0

# shellcheck source=environments/horovod_wheel.sh
source "$HERE/environments/horovod_wheel.sh"
# shellcheck source=environments/interpreter.sh
source "$HERE/environments/interpreter.sh"

# complete OUT LOCK: whether OUT alone has all wheels of the lock.
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
    if pins "$lock" | grep -q '^horovod=='; then own_horovod "$out" "$lock" "$own"; fi
}

# loads_cuda OUT LOCK: whether its torch is the newest and not the CPU build; such a torch does not load without CUDA's libraries.
loads_cuda() {
    pins "$2" | grep '^torch==' | grep -Evq "$OLDER_TORCH" && ! compgen -G "$1/torch-*+cpu-*.whl" >/dev/null
}

# collect_uv OUT: uv, which installs the environments' Python 3.11.
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

# cpu_torchvision OUT: beside a torch for CPUs, a torchvision that loads with it. PyPI's loads only with CUDA's libraries;
# an index that has the CPU build gives that.
cpu_torchvision() {
    local cpu=("$1/torchvision-${TORCHVISION#*==}+cpu-"*.whl)
    if ! compgen -G "$1/torch-*+cpu-*.whl" >/dev/null || [ -e "${cpu[0]}" ]; then return; fi
    "$PYTHON" -m pip download --quiet --no-deps --dest "$1" "$TORCHVISION"
    cpu=("$1/torchvision-${TORCHVISION#*==}+cpu-"*.whl)
    if [ ! -e "${cpu[0]}" ]; then "$PYTHON" "$HERE/stand_in_wheels.py" torchvision "$1" "$TORCHVISION"; fi
}

# own_horovod OUT LOCK OWN: puts this environment's Horovod into OWN. Environments for GPUs get the same one as those for CPUs,
# because here they run the CPU builds of torch and TensorFlow.
own_horovod() {
    local out=$1 own=$3 like kept
    case $(horovod_framework "$2") in torch) like=horovod ;; *) like=tensorflow-cpu ;; esac
    kept=$HOROVOD_CACHE/$(built_with "$out" "$HERE/environments/$like.txt")
    if ! compgen -G "$kept/horovod-*.whl" >/dev/null; then build_horovod "$out" "$like" "$kept"; fi
    cp "$kept"/horovod-*.whl "$own"
}

# built_with OUT LOCK: the versions that the wheel depends on, as one word.
built_with() {
    local kind='' mpi='without MPI'
    if compgen -G "$1/torch-*+cpu-*.whl" >/dev/null; then kind=cpu; fi
    if mpi_compiles; then mpi=$(mpicxx --showme:version 2>&1); fi
    echo "$(pins "$2" | grep -E '^(horovod|torch|tensorflow-cpu)==') $kind $("$PYTHON" --version) ${mpi%% (*}" | tr -cs 'a-zA-Z0-9.\n' - | paste -sd -
}

# build_horovod OUT LIKE KEPT: for the environment LIKE. It takes one to five minutes.
build_horovod() {
    local out=$1 like=$2 kept=$3 venv=$scratch/venv-$2 wheel
    echo "compiling Horovod for ${like}, which takes minutes; it is kept in $kept" >&2
    "$PYTHON" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --find-links "$out" "${BUILD_TOOLS[@]}" \
        -r <(pins "$HERE/environments/$like.txt" | grep -E '^(torch|tensorflow-cpu|numpy)==')
    mkdir -p "$scratch/built-$like" "$kept"
    horovod_wheel "$venv/bin/python" "$HERE/environments/$like.txt" "$scratch/built-$like"
    # Moved in one step, because from now on it is found by its name.
    for wheel in "$scratch/built-$like"/horovod-*.whl; do
        cp "$wheel" "$kept/.partial"
        mv "$kept/.partial" "$kept/${wheel##*/}"
    done
}

# locks NAME...: the files of these environments, or of all. Torch first, because the older versions are made from its wheel.
locks() {
    local name
    if [ $# -eq 0 ]; then
        printf '%s\n' "$HERE"/environments/{torch,horovod,*}.txt
        return
    fi
    for name; do
        if [ ! -e "$HERE/environments/$name.txt" ]; then
            echo "no environment $name: bootstrap/environments/ has no $name.txt" >&2
            return 2
        fi
        echo "$HERE/environments/$name.txt"
    done
}

main() {
    local out=$1 lock wanted
    shift
    wanted=$(locks "$@")
    mkdir -p "$out"
    # Earlier versions kept one Horovod in the shared folder.
    rm -f "$out"/horovod-*.whl
    collect_uv "$out" >&2
    for lock in $wanted; do
        if complete "$out" "$lock"; then continue; fi
        collect "$out" "$lock" >&2
        complete "$out" "$lock" || { echo "$out does not hold all of ${lock##*/}" >&2; return 1; }
    done
    cpu_torchvision "$out" >&2
    echo "every wheel is in $out"
}

if [ $# -eq 0 ]; then
    sed -n '3s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
main "$@"
