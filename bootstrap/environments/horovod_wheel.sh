# horovod_wheel PYTHON LOCK OUT: builds the wheel of the Horovod that LOCK pins into OUT, for an environment that has the lock's
# framework. PYTHON's environment must hold that, setuptools<81, wheel, cmake<4, cloudpickle, pyyaml, psutil, cffi and packaging.
horovod_wheel() {
    local python=$1 lock=$2 out=$3 scratch with_mpi=0 with without failed=0
    scratch=$(mktemp -d)
    if mpi_compiles; then with_mpi=1; fi
    install -m 0755 "${BASH_SOURCE[0]%/*}/cxx17" "$scratch/cxx17"
    # MAKEFLAGS replaces Horovod's own -j8, which needs more memory than a small node has.
    case $(horovod_framework "$lock") in
    torch) with=PYTORCH without=TENSORFLOW ;;
    *) with=TENSORFLOW without=PYTORCH ;;
    esac
    env PATH="$(dirname "$python"):$PATH" CXX="$scratch/cxx17" MAKEFLAGS="-j$(nproc)" \
        "HOROVOD_WITH_$with=1" "HOROVOD_WITHOUT_$without=1" HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MXNET=1 \
        HOROVOD_WITH_MPI=$with_mpi HOROVOD_WITHOUT_MPI=$((1 - with_mpi)) \
        "$python" -m pip wheel --no-deps --no-build-isolation --no-cache-dir --no-binary horovod -w "$out" \
        "$(grep '^horovod==' "$lock")" || failed=1
    rm -rf "$scratch"
    return "$failed"
}

# Debian has Open MPI's headers and its compiler in different packages.
mpi_compiles() {
    mpicxx -x c++ -E -include mpi.h /dev/null >/dev/null 2>&1
}

# horovod_framework LOCK: the framework that Horovod is compiled for.
horovod_framework() {
    if grep -q '^torch==' "$1"; then echo torch; else echo tensorflow; fi
}
