# Runs steps one after another. The first that fails ends the boot, and its place and reason are reported. The role script defines
# BUNDLE and report_failure REASON.

# Without it a command that fails inside $(…) does not end the command around it.
shopt -s inherit_errexit

# A step that hangs must be named before Slurm gives the node up (ResumeTimeout, 1,800 s). On a plain image, CUDA and NVIDIA's driver,
# which is compiled, take minutes. A role script may set another limit before.
if [ ! -v STEP_LIMIT_S ]; then STEP_LIMIT_S=900; fi

say() {
    echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $*"
}

# fail MESSAGE: how a step gives up. ERR then fires at the caller's line.
fail() {
    echo "$*" >&2
    return 1
}

# A run that waits for another one must say so before its caller gives up: a prolog after 900 s (programs/bin/job-hooks). A role script
# may set another limit before.
if [ ! -v LOCK_LIMIT_S ]; then LOCK_LIMIT_S=800; fi

# One run at a time on a machine: the boot and a new bundle must not run at once.
one_at_a_time() {
    if take_lock /run/gpucluster.lock "$LOCK_LIMIT_S"; then return; fi
    say "$LOCK_ERROR"
    report_failure "$LOCK_ERROR" || say "the failure could not be reported"
    exit 1
}

# run_step NAME [SECONDS SHOWN]: runs step_NAME from NAME.sh, in any folder of steps/, in a subshell: errexit holds there, and no
# variable or function outlives the step. It is ended after SECONDS (STEP_LIMIT_S), and called SHOWN in what is reported.
run_step() {
    local name=$1 limit_s=${2:-$STEP_LIMIT_S} shown=${3:-$1} began=${EPOCHREALTIME/./} scratch status tee_pid step_pid
    scratch=$(mktemp -d)
    say "step=$shown status=started"
    exec {errors}> >(exec tee "$scratch/stderr" >&2)
    tee_pid=$!
    set +e
    (
        set -eEuo pipefail
        # The trap runs in the function that fails, which may have its own `name`.
        THIS_STEP=$name THIS_FAILURE=$scratch/failure
        trap 'note_failure "$THIS_STEP" "$THIS_FAILURE" "$?" "$BASH_COMMAND"' ERR
        source_step "$name"
        "step_$name"
    ) 2>&"$errors" 9>&- &
    step_pid=$!
    exec {errors}>&-
    end_late "$step_pid" "$tee_pid" "$scratch/late" "$limit_s" </dev/null >/dev/null 2>&1 9>&- &
    wait "$step_pid"
    status=$?
    wait "$tee_pid"
    set -e
    if [ -s "$scratch/late" ] || [ "$status" -ne 0 ]; then
        stop_at "$shown" "$status" "$scratch"
    fi
    rm -rf "$scratch"
    say "step=$shown status=ok seconds=$(seconds_since "$began")"
}

# end_late STEP TEE FILE SECONDS: if the step still runs after SECONDS, or a process that has its errors, writes to FILE what it runs,
# and ends it with all processes below it. The innermost are asked first, so that the step notes the line.
end_late() {
    local step=$1 tee=$2 file=$3 limit_s=$4 status=0 tree inner pid
    timeout "$limit_s" tail --pid="$tee" -f /dev/null || status=$?
    if [ "$status" -ne 124 ]; then return; fi
    if ! kill -0 "$step" 2>/dev/null; then
        echo "no end after $limit_s s: a process that it started has its errors" >"$file"
        kill -KILL "$tee"
        return
    fi
    mapfile -t tree < <(tree_of "$step")
    mapfile -t inner < <(for pid in "${tree[@]}"; do pgrep -P "$pid" >/dev/null || echo "$pid"; done)
    echo "no end after $limit_s s, it ran: $(ps -ww -o args= -p "${inner[*]}" | paste -sd '|')" >"$file"
    kill "${inner[@]}"
    sleep 2
    mapfile -t -O "${#tree[@]}" tree < <(tree_of "$step") # a step that tries again has begun another process
    kill -KILL "${tree[@]}" "$tee"
}

# tree_of PID: the process and all below it.
tree_of() {
    local child
    echo "$1"
    for child in $(pgrep -P "$1"); do tree_of "$child"; done
}

# source_step NAME
source_step() {
    local files=("$BUNDLE"/steps/*/"$1.sh")
    if [ ! -e "${files[0]}" ]; then fail "this bundle has no step $1: no file $BUNDLE/steps/*/$1.sh"; fi
    # shellcheck source=/dev/null
    source "${files[0]}"
}

# try_step NAME NOTE: a step that this machine can do without. A failure is written to the file NOTE and the boot continues; a
# success removes the file. (Not `if run_step`: bash would ignore errexit in everything that the condition runs.)
try_step() {
    local name=$1 note=$2 status
    set +e
    (
        report_failure() { put_file "$note" 0644 root:root <<<"$1"; }
        run_step "$name"
    )
    status=$?
    set -e
    if [ "$status" -eq 0 ]; then rm -f "$note"; fi
}

# seconds_since MICROSECONDS
seconds_since() {
    local now=${EPOCHREALTIME/./}
    local tenths=$(((now - $1) / 100000))
    echo "$((tenths / 10)).$((tenths % 10))"
}

# note_failure NAME FILE STATUS COMMAND: called when a command fails; keeps the first failure, which is the innermost. The line is
# in the step's own file if the failing command was called from there, else in the file of the command.
note_failure() {
    local name=$1 file=$2 status=$3 command=$4 i line=${BASH_LINENO[0]}
    [ ! -s "$file" ] || return 0
    for ((i = 1; i < ${#FUNCNAME[@]}; i++)); do
        if [ "${BASH_SOURCE[i]##*/}" = "$name.sh" ]; then
            line=${BASH_LINENO[i - 1]}
            break
        fi
    done
    printf '%s\n' "$line" "${command%%$'\n'*} exited with status $status" >"$file"
}

# stop_at NAME STATUS SCRATCH: reports the failed step and ends the boot. A script of the user, scripts/NAME, has no line of ours, and
# its own log.
stop_at() {
    local name=$1 status=$2 scratch=$3 line='?' command="exited with status $2" reason place log=boot.log
    if [ -s "$scratch/failure" ]; then
        { IFS= read -r line && IFS= read -r command; } <"$scratch/failure"
    fi
    reason=$(cat "$scratch/late" 2>/dev/null || last_error "$scratch/stderr")
    place="step=$name line=$line"
    if [[ $name == scripts/* ]]; then place="step=$name" log=$name.log; fi
    reason="$place: $(cut_to 150 "${reason:-$command}") (log /var/log/gpucluster/$log)"
    rm -rf "$scratch"
    say "$reason"
    say "step=$name status=failed exit_status=$status"
    report_failure "$reason" || say "the failure could not be reported"
    exit 1
}

# last_error FILE: its last line that is not blank, as plain text.
last_error() {
    tr -cd '[:print:]\n\t' <"$1" | sed -e 's/[[:space:]]*$//' -e '/^$/d' | tail -n 1
}

# cut_to LENGTH TEXT
cut_to() {
    if [ "${#2}" -gt "$1" ]; then echo "${2:0:$1}…"; else echo "$2"; fi
}
