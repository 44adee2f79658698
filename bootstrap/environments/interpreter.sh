# The Python 3.11 of an environment: Ubuntu 24.04 has only 3.12, for which MXNet, TensorFlow 2.15 and SMDDP were never built.

# One minor version of uv, because minor versions differ in the folders that they write.
readonly UV="uv>=0.13,<0.14"

# python_3_11 FOLDER: prints the path of an interpreter below FOLDER, so that it is stored with the environment.
python_3_11() {
    local scratch found pip
    scratch=$(mktemp -d)
    virtualenv --quiet "$scratch"
    pip=("$scratch/bin/python" -m pip install --quiet --disable-pip-version-check)
    "${pip[@]}" --no-index "$UV" 2>/dev/null || "${pip[@]}" "$UV" >&2
    export UV_PYTHON_INSTALL_DIR=$1/interpreter
    "$scratch/bin/uv" python install --no-bin 3.11 >&2
    # Two paths lead to the installation, one without the patch version: uv prints the right one.
    found=$("$scratch/bin/uv" python find --managed-python --system 3.11)
    rm -rf "$scratch"
    [ -x "$found" ] || fail "uv names no Python 3.11 below $1/interpreter: it printed '$found'"
    echo "$found"
}
