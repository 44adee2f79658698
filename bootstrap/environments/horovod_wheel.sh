# horovod_wheel PYTHON LOCK OUT: builds the wheel of the Horovod that LOCK pins into OUT, for an environment that has the lock's
# framework. PYTHON's environment must hold that, setuptools<81, wheel, cmake<4, cloudpickle, pyyaml, psutil, cffi and packaging.
horovod_wheel() {
    local python=$1 lock=$2 out=$3 scratch with_mpi=0 with without failed=0
    scratch=$(mktemp -d)
    if mpi_compiles; then with_mpi=1; fi
    cxx17_wrapper >"$scratch/cxx17"
    chmod +x "$scratch/cxx17"
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

# Debian has Open MPI's headers in another package than its compiler.
mpi_compiles() {
    mpicxx -x c++ -E -include mpi.h /dev/null >/dev/null 2>&1
}

# horovod_framework LOCK: what Horovod is built against.
horovod_framework() {
    if grep -q '^torch==' "$1"; then echo torch; else echo tensorflow; fi
}

# A g++ that raises the -std=c++14 which Horovod appends to every command line to 17, which torch's headers ask for, and
# leaves out debug information and Open MPI's C++ bindings: Open MPI 5 has none. Gloo uses <cstdint> without including it;
# newer g++ do not bring it along.
#
# nvcc calls it too, several times for a file and with what it has preprocessed already: what nvcc says stays as it is.
cxx17_wrapper() {
    cat <<'EOF'
#!/bin/bash
case " $*" in *" -D__CUDA"*) exec g++ "$@" ;; esac
arguments=()
for argument in "$@"; do
    case $argument in
    -std=c++11 | -std=c++14 | -std=gnu++11 | -std=gnu++14) argument=-std=c++17 ;;
    -g | -lmpi_cxx | *libmpi_cxx.so*) continue ;;
    esac
    arguments+=("$argument")
done
exec g++ -include cstdint -DOMPI_SKIP_MPICXX "${arguments[@]}"
EOF
}
