# Writes files only if they change: running a role twice changes nothing.

# put_file PATH MODE OWNER:GROUP <CONTENT: gives PATH this content, mode and owner.
put_file() {
    local path=$1 mode=$2 owner=$3 new
    new=$(mktemp)
    cat >"$new"
    mkdir -p "$(dirname "$path")"
    if ! cmp -s "$new" "$path"; then
        install -m "$mode" -o "${owner%:*}" -g "${owner#*:}" "$new" "$path.new"
        mv -f "$path.new" "$path"
    fi
    rm -f "$new"
    put_mode "$path" "$mode" "$owner"
}

# put_program PATH: installs the bundle's programs/PATH as /opt/gpucluster/PATH.
put_program() {
    put_file "/opt/gpucluster/$1" 0755 root:root <"$BUNDLE/programs/$1"
}

# put_mode PATH MODE OWNER:GROUP
put_mode() {
    local now
    now=$(stat -c '%a %U:%G' "$1")
    if [ "0${now%% *}" != "0${2#0}" ]; then chmod "$2" "$1"; fi
    if [ "${now#* }" != "$3" ]; then chown "$3" "$1"; fi
}

# put_directory PATH MODE OWNER:GROUP
put_directory() {
    mkdir -p "$1"
    put_mode "$@"
}

# put_line PATH LINE: adds the line to the file if it is missing; other lines are not ours.
put_line() {
    if ! grep -qsxF -- "$2" "$1"; then echo "$2" >>"$1"; fi
}
