# The Python environments of the jobs, on /home: one folder per lock, and a link that moves when it is complete, so that running
# jobs keep the one they started with.
readonly ENVIRONMENTS=/home/gpucluster/envs

step_python_env() {
    local lock
    for lock in "$BUNDLE"/environments/*.txt; do environment "$lock"; done
}

# environment LOCK
environment() {
    local lock=$1 name python hash folder
    name=$(basename "$lock" .txt)
    python=$(command -v python3.11 || command -v python3)
    hash=$({ "$python" --version && cat "$lock"; } | sha256sum)
    folder=$ENVIRONMENTS/$name-${hash:0:16}
    if [ ! -e "$folder/complete" ]; then
        rm -rf "$folder"
        make_environment "$python" "$lock" "$folder"
        touch "$folder/complete"
    fi
    if [ "$(readlink "$ENVIRONMENTS/$name" || true)" != "$folder" ]; then ln -sfn "$folder" "$ENVIRONMENTS/$name"; fi
}

# make_environment PYTHON LOCK FOLDER
make_environment() {
    local lock=$2 folder=$3
    virtualenv --quiet --python "$1" "$folder"
    install_lock "$folder" "$lock"
    # Imports what jobs import: it is the check, and it leaves the compiled files that a job user could not write.
    "$folder/bin/python" -c "import $(imports "$lock")"
}

# imports LOCK: what its first lines say that jobs import, as Python writes it.
imports() {
    sed -nE 's/^# imports: //p' "$1" | sed 's/ /, /g'
}

# wants_horovod LOCK: the cluster may do without (software.frameworks).
wants_horovod() {
    grep -q '^horovod==' "$1"
}

# From the image's own wheels where it offers every one; else from the package index, with Horovod built here, because the
# index has its source only.
install_lock() {
    local pip=("$1/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check) lock=$2 built own
    own=/opt/wheels/$(basename "$lock" .txt)
    # What fits one environment alone lies in a folder of its own: Horovod's wheels for torch and TensorFlow have one name.
    if [ -d "$own" ]; then pip+=(--find-links "$own"); fi
    if "${pip[@]}" --no-index -r <(grep -v '^--' "$lock") 2>/dev/null; then return; fi
    say "not every wheel of ${lock##*/} is on this machine: asking the package index"
    built=$(mktemp -d)
    "${pip[@]}" -r <(grep -v '^horovod==' "$lock") "setuptools<81" wheel "cmake<4"
    if ! wants_horovod "$lock"; then return; fi
    compiler "$1/bin/python"
    horovod_wheel "$1/bin/python" "$lock" "$built" || true
    if ! compgen -G "$built/horovod-*.whl" >/dev/null; then
        fail "Horovod cannot be built here: leave it out of software.frameworks, or give this image's pip its wheel"
    fi
    "${pip[@]}" --no-deps "$built"/horovod-*.whl
    rm -rf "$built"
}

# compiler PYTHON: what compiles an extension for PYTHON.
compiler() {
    local missing=() header version
    need g++ g++
    need make make
    { read -r header && read -r version; } < <("$1" -c 'import sysconfig
print(sysconfig.get_path("include") + "/Python.h", sysconfig.get_python_version(), sep="\n")')
    if [ ! -e "$header" ]; then missing+=("python$version-dev"); fi
    if [ "${#missing[@]}" -gt 0 ]; then install_packages "${missing[@]}"; fi
}
