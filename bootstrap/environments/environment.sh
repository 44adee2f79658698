# Builds one Python environment of the jobs on a node: from the cache if it has it, else from its lock. Each lock has its own
# folder, and a link moves when the folder is complete, so that running jobs keep the environment that they started with.

# build_environment NAME: as root, in a job of Slurm.
build_environment() {
    local name=$1 lock=$BUNDLE/environments/$1.txt folder cache began=${EPOCHREALTIME/./}
    folder=$ENVIRONMENTS/$(basename "$(readlink "$ENVIRONMENTS/.wanted/$name")")
    cache=$(cat "$BUNDLE/environments/cache")
    if [ ! -e "$folder/complete" ]; then
        rm -rf "$folder"
        restore "$cache" "$folder" || make "$cache" "$lock" "$folder"
        touch "$folder/complete"
    fi
    ln -sfn "${folder##*/}" "$ENVIRONMENTS/$name"
    say "environment=$name folder=${folder##*/} status=ready seconds=$(seconds_since "$began")"
}

# restore CACHE FOLDER: whether the cache had it. A broken copy is deleted, and the environment built anew.
restore() {
    local uri name=${2##*/}
    [ -n "$1" ] || return 1
    uri=$1/$name.tar$(suffix)
    if ! cache has "$uri"; then
        say "$uri is not in the cache"
        return 1
    fi
    say "restoring $name from $uri"
    if cache get "$uri" | unpacked "${2%/*}"; then return; fi
    say "$uri could not be restored: building it anew"
    rm -rf "$2"
    return 1
}

# make CACHE LOCK FOLDER
make() {
    local lock=$2 folder=$3 missing=() python
    need virtualenv virtualenv
    if [ "${#missing[@]}" -gt 0 ]; then install_packages "${missing[@]}"; fi
    say "building ${folder##*/}"
    python=$(python_3_11 "$folder")
    virtualenv --quiet --python "$python" "$folder"
    install_lock "$folder" "$lock"
    link_libraries "$folder"
    # Imports what jobs import: this is the check, and it writes the compiled files, which a job's user cannot write. The
    # program that submits this job sets Python to write none.
    env --unset=PYTHONDONTWRITEBYTECODE "$folder/bin/python" "$BUNDLE/environments/verify.py" "$lock"
    if [ -n "${WITHOUT_NCCL:-}" ]; then
        say "not stored: the nodes of another cluster may have that CUDA, and would restore a Horovod without NCCL"
        return
    fi
    store "$1" "$folder"
}

# store CACHE FOLDER: a failure does not matter for this cluster. Nodes may not replace what is there.
store() {
    local uri
    [ -n "$1" ] || return 0
    uri=$1/${2##*/}.tar$(suffix)
    if cache has "$uri"; then
        say "warning: $uri is in the cache already, and no node may replace it: if it is broken, delete it with \`aws s3 rm $uri\`"
        return
    fi
    if tar -C "${2%/*}" -cf - "${2##*/}" | compressed | cache put "$uri"; then
        say "stored $uri"
    else
        say "warning: $uri could not be stored: the next cluster builds it anew"
    fi
}

suffix() {
    if command -v zstd >/dev/null; then echo .zst; else echo .gz; fi
}

compressed() {
    if [ "$(suffix)" = .zst ]; then zstd -q -T0 -3; else gzip -1; fi
}

# unpacked FOLDER
unpacked() {
    if [ "$(suffix)" = .zst ]; then zstd -q -d; else gzip -d; fi | tar -C "$1" --no-same-owner -xf -
}

# cache VERB URI
cache() {
    (cd "$BUNDLE" && PYTHONDONTWRITEBYTECODE=1 python3 -m gpucluster_node.jobs.environment_cache "$@")
}

wants_horovod() {
    grep -q '^horovod==' "$1"
}

# From the image's wheels if it has all of them; else from the package index, with Horovod compiled here, because the
# index has only its source.
install_lock() {
    local pip=("$1/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check) lock=$2 built own
    own=/opt/wheels/$(basename "$lock" .txt)
    # Wheels for one environment are in a separate folder: Horovod's wheels for torch and TensorFlow have the same name.
    if [ -d "$own" ]; then pip+=(--find-links "$own"); fi
    if "${pip[@]}" --no-index -r <(grep -v '^--' "$lock") 2>/dev/null; then return; fi
    say "not every wheel of ${lock##*/} is on this machine: asking the package index"
    "${pip[@]}" -r <(grep -v '^horovod==' "$lock")
    if ! wants_horovod "$lock"; then return; fi
    "${pip[@]}" "setuptools<81" wheel "cmake<4"
    compiler "$1/bin/python"
    mpi_compiler
    built=$(mktemp -d)
    use_cuda "$1" "$lock"
    if ! horovod_wheel "$1/bin/python" "$lock" "$built" 2>&1 | tee "$built/log"; then
        fail "Horovod cannot be compiled here: $(compile_error "$built/log")"
    fi
    "${pip[@]}" --no-deps "$built"/horovod-*.whl
    rm -rf "$built"
}

# compile_error LOG: the first error of a compiler or linker, from which others follow; else CMake's; else the last line.
compile_error() {
    local found error='error: *$|error: [^s]|undefined reference to|ld: cannot find|(nvcc|ptxas) fatal'
    found=$(grep -m 1 -A 1 -E "$error" "$1" || grep -m 1 -A 1 'CMake Error' "$1" || last_error "$1")
    # CMake breaks its lines, and indents what a compiler printed.
    case $found in
    *"CMake Error"* | "        "*) ;;
    *) found=${found%%$'\n'*} ;;
    esac
    echo "$found" | paste -sd' ' | sed -E 's/ +/ /g; s/^ //'
}

# compiler PYTHON: installs what compiles extensions for PYTHON. An environment with its own interpreter has the headers.
compiler() {
    local missing=() header version
    need g++ g++
    need make make
    { read -r header && read -r version; } < <("$1" -c 'import sysconfig
print(sysconfig.get_path("include") + "/Python.h", sysconfig.get_python_version(), sep="\n")')
    if [ ! -e "$header" ]; then missing+=("python$version-dev"); fi
    if [ "${#missing[@]}" -gt 0 ]; then install_packages "${missing[@]}"; fi
}

# mpi_compiler: EFA's Open MPI is not on the PATH, and includes its headers. Without MPI each rank that mpirun starts would
# train alone.
mpi_compiler() {
    if [ -x /opt/amazon/openmpi/bin/mpicxx ]; then PATH=/opt/amazon/openmpi/bin:$PATH; fi
    mpi_compiles || install_packages libopenmpi-dev
    mpi_compiles || fail "Horovod cannot be built with MPI here: mpicxx finds no mpi.h"
}

# use_cuda FOLDER LOCK: if the framework was built with CUDA, Horovod uses the environment's NCCL, which the framework loads too,
# compiled by the framework's version of CUDA. Without that CUDA, Horovod uses the network, and a warning is logged.
use_cuda() {
    local major home nccl
    major=$(cuda_major "$1" "$2")
    home=$(cuda_home "${major:-none}")
    nccl=$(compgen -G "$1/lib/python3.11/site-packages/nvidia/nccl" || true)
    if [ -z "$home" ] || [ -z "$nccl" ]; then
        without_nccl "$1" "$2" "$major"
        return
    fi
    ln -sfn libnccl.so.2 "$nccl/lib/libnccl.so"
    # CUDA_HOME is for torch, which uses /usr/local/cuda otherwise. NCCL's folder becomes Horovod's RUNPATH, because TensorFlow
    # loads no NCCL itself.
    export HOROVOD_GPU=CUDA HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_LINK=SHARED
    export HOROVOD_CUDA_HOME=$home CUDA_HOME=$home HOROVOD_NCCL_HOME=$nccl
    HOROVOD_BUILD_CUDA_CC_LIST=$("$home/bin/nvcc" --list-gpu-arch | sed -n 's/^compute_//p' | awk '$1 >= 70' | paste -sd,)
    export HOROVOD_BUILD_CUDA_CC_LIST
}

# without_nccl FOLDER LOCK MAJOR: fails if torch would find another CUDA, with which parts of Horovod would be compiled.
without_nccl() {
    local other='' why="its framework was built without CUDA"
    if [ -n "$3" ]; then why="no compiler of CUDA $3 is here"; fi
    if [ -n "$3" ] && [ "$(horovod_framework "$2")" = torch ]; then
        other=$("$1/bin/python" -c 'from torch.utils.cpp_extension import CUDA_HOME; print(CUDA_HOME or "")')
    fi
    if [ -n "$other" ]; then
        fail "Horovod cannot be compiled here: torch was built for CUDA $3, but $other is another version; install cuda-toolkit-$3 on the image"
    fi
    say "Horovod of ${2##*/} is built without NCCL: $why"
    if [ "$(gpus_of "$(basename "$2" .txt)" "$BUNDLE/environments")" = 1 ]; then
        say "warning: GPUs of this cluster will reduce over the network, through the hosts' memory"
        WITHOUT_NCCL=1
    fi
}

# cuda_major FOLDER LOCK: the major version of the CUDA that the framework was built for.
cuda_major() {
    if [ "$(horovod_framework "$2")" = torch ]; then
        "$1/bin/python" -c 'import torch; print((torch.version.cuda or "").partition(".")[0])'
    else
        "$1/bin/python" -c 'import tensorflow as tf; print(tf.sysconfig.get_build_info().get("cuda_version", "").partition(".")[0])'
    fi
}

# cuda_home MAJOR: the newest CUDA of this major version, or nothing.
cuda_home() {
    local each
    for each in $(compgen -G "${CUDA_ROOT:-/usr/local}/cuda-$1.*" | sort -rV); do
        if [ -x "$each/bin/nvcc" ]; then
            echo "$each"
            return
        fi
    done
}

# link_libraries FOLDER: MXNet loads its libraries from its own folder: CUDA, and NumPy's libquadmath.
link_libraries() {
    local packages=$1/lib/python3.11/site-packages library
    if [ ! -d "$packages/mxnet" ]; then return; fi
    for library in "$packages"/nvidia/*/lib/*.so*; do
        if [ -e "$library" ]; then ln -sf "../${library#"$packages"/}" "$packages/mxnet/"; fi
    done
    for library in "$packages"/numpy.libs/libquadmath*.so*; do
        if [ -e "$library" ]; then ln -sf "../${library#"$packages"/}" "$packages/mxnet/libquadmath.so.0"; fi
    done
}
