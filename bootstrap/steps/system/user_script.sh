# Fetches, checks and runs one of the user's scripts, SCRIPT_NAME. Its output is in a log of its own, and in the boot's.
readonly SCRIPT_BYTES=1048576

step_user_script() {
    local file=$SCRIPTS/$SCRIPT_NAME log=/var/log/gpucluster/scripts/$SCRIPT_NAME.log status=0 pid node said why
    put_directory "$SCRIPTS" 0700 root:root
    put_directory "${log%/*}" 0700 root:root
    get_script "$file"
    judge_script "$file"
    chmod 0700 "$file"
    : >"$log"
    node=$(hostname)
    timeout --kill-after=10 "$SCRIPT_LIMIT_S" env GPUCLUSTER_CLUSTER="$CLUSTER" GPUCLUSTER_NODE_TYPE="$ROLE" \
        GPUCLUSTER_NODE="$node" GPUCLUSTER_PARTITION="$(script_partition "$node")" \
        "$file" "${SCRIPT_ARGS[@]}" </dev/null >"$log" 2>&1 &
    pid=$!
    tail --pid="$pid" --sleep-interval=0.2 --lines=+1 --follow "$log"
    wait "$pid" || status=$?
    if [ "$status" -eq 0 ]; then return; fi
    said=$(last_error "$log")
    # man timeout.1: 124 if the command times out, 137 if it had to be killed.
    case $status in
        124 | 137) why="it did not end within $((SCRIPT_LIMIT_S / 60)) minutes, and was ended" ;;
        *) why="it exited with status $status" ;;
    esac
    fail "$why: ${said:-it printed nothing}"
}

# script_partition NODE: nothing on the head node.
script_partition() {
    if [ "$ROLE" = compute ]; then echo "${1%-*}"; fi
}

# get_script FILE
get_script() {
    case $SCRIPT_SOURCE in
        files/*) install -m 0600 "$BUNDLE/scripts/$SCRIPT_SOURCE" "$1" ;;
        s3://*) aws_api object "$SCRIPT_SOURCE" "$1" ;;
        *)
            curl -sSfL --proto '=https' --proto-redir '=https' --max-time 120 --retry 5 --retry-connrefused \
                --max-filesize "$SCRIPT_BYTES" -o "$1" "$SCRIPT_SOURCE"
            ;;
    esac
}

# judge_script FILE: ends the step if this is not the script that cluster.yaml means, or if the kernel could not run it.
judge_script() {
    local size digest first=''
    size=$(stat -c %s "$1")
    if [ "$size" -gt "$SCRIPT_BYTES" ]; then fail "it has $size bytes, and a script may have $SCRIPT_BYTES"; fi
    digest=$(sha256sum "$1")
    digest=${digest%% *}
    if [ "$SCRIPT_SHA256" != - ] && [ "$digest" != "$SCRIPT_SHA256" ]; then
        fail "it has changed: its SHA-256 is $digest, and cluster.yaml has $SCRIPT_SHA256"
    fi
    if [ "$(head -c 2 "$1")" != '#!' ]; then fail "it does not begin with #!, so the kernel cannot run it"; fi
    IFS= read -r first <"$1" || true
    if [[ $first == *$'\r' ]]; then fail "it has the line ends of Windows (CRLF): save it with those of Unix"; fi
}
