# The machine's own environment, which sudo, slurmctld and cloud-init drop.

readonly SYSTEM_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# machine_environment: exports the lines NAME=VALUE of /etc/environment. The file is no shell script: pam_env expands nothing and
# ignores other lines (linux-pam, pam_env.c: _parse_env_file). A line that names a constant of our scripts is ignored, too.
machine_environment() {
    local line name value
    if [ ! -e /etc/environment ]; then return; fi
    while IFS= read -r line || [ -n "$line" ]; do
        if ! [[ ${line%%#*} =~ ^[[:space:]]*(export )?([A-Za-z_][A-Za-z0-9_]*)=(.*)$ ]]; then continue; fi
        name=${BASH_REMATCH[2]}
        value=$(unquoted "${BASH_REMATCH[3]}")
        if [[ $(declare -p "$name" 2>/dev/null || true) =~ ^declare\ -[A-Za-z]*r ]]; then continue; fi
        if [ "$name" = PATH ]; then value+=:$SYSTEM_PATH; fi # it may rely on an expansion that does not happen
        export "$name=$value"
    done </etc/environment
}

# unquoted VALUE: without blanks at its end, and without quotes around it.
unquoted() {
    local value=${1%"${1##*[![:space:]]}"}
    if [[ $value == [\"\']* ]]; then
        value=${value:1}
        value=${value%[\"\']}
    fi
    printf '%s' "$value"
}
