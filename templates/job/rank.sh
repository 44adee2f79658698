#!/usr/bin/env bash
# Runs one rank, whatever the launcher: tells the program who it is, labels its lines, ends it for certain, says how it failed.
set -uo pipefail

# Ended when the launcher's process dies that started it: horovodrun, ending ranks that are just starting, can kill that and
# miss this. The second look is for a parent that died before the kernel was asked.
if [ -z "${RANK_PARENT:-}" ]; then
  RANK_PARENT=$PPID exec setpriv --pdeathsig TERM -- bash "$0" "$@"
fi
[ "$RANK_PARENT" = "$PPID" ] && [ "$PPID" -ne 1 ] || exit 143
unset RANK_PARENT
trap '' USR1 USR2 # for the program alone (signal-ranks.sh); and a trap would interrupt `wait`, which then tells of the signal

# shellcheck source=templates/job/network.sh
source "$GPUCLUSTER_JOB_DIR/network.sh"

for pair in $GPUCLUSTER_RANK_VARIABLES; do
  from=${pair#*=}
  export "${pair%%=*}=${!from}"
done
NODE=${GPUCLUSTER_NODE:-$(hostname --short)}
LABEL=${GPUCLUSTER_LABEL:-$RANK} # of a process that is no rank: what it is
PATH=${PATH#"$GPUCLUSTER_JOB_DIR/bin:"}

# Each node names its own interface: they need not be called the same on every type of the partition.
use_own_interface() {
  local interface
  interface=$(interface_of "$(address_of "$NODE")") || return
  : "${GLOO_SOCKET_IFNAME:=$interface}"
  export GLOO_SOCKET_IFNAME
  [ -z "${HOROVOD_GLOO_IFACE:-}" ] || export HOROVOD_GLOO_IFACE=$interface NCCL_SOCKET_IFNAME=$interface
}

# shellcheck disable=SC2317 # called by the trap
stop() {
  stopped=1
  kill -TERM -- "-$program" 2>/dev/null
  (sleep 5; kill -KILL -- "-$program" 2>/dev/null) >/dev/null 2>&1 {output}>&- &
  killer=$!
}

await() {
  while :; do
    wait "$1"
    local code=$?
    kill -0 "$1" 2>/dev/null || return "$code"
  done
}

# The exception's line of the last traceback; without one, the last line that is not blank. torch labels the lines itself,
# and its stack frames come after the sentence that counts: `what():`, or its watchdog's.
last_words() {
  awk '{ sub(/^\[rank[0-9]+\]: ?/, ""); sub(/\004$/, "") }
    /^frame #[0-9]+: / || /^Exception raised from / { next }
    match($0, /Watchdog caught collective operation timeout: .*/) { last = exception = substr($0, RSTART); next }
    sub(/^ *what\(\): +/, "") { last = exception = $0; next }
    /Traceback \(most recent call last\):$/ { inside = 1; next }
    inside && /^[^ \t]/ { exception = $0; inside = 0 }
    /[^ \t]/ { last = $0 }
    END { print exception != "" ? exception : last }' "$1" | tr '\t' ' ' | cut -c1-1000
}

reason_of() {
  local words
  words=$(last_words "$2")
  if [ "$1" -gt 128 ]; then
    words="killed by SIG$(kill -l "$1" 2>/dev/null)${words:+, last line: $words}"
    [ "$1" -ne 137 ] || words="$words (the kernel does that when memory runs out)"
  fi
  echo "${words:-it printed nothing}"
}

# What NCCL and libfabric must be told on this instance type, where the job says nothing else.
# shellcheck source=/dev/null
[ ! -e /etc/gpucluster/job-environment.sh ] || source /etc/gpucluster/job-environment.sh
((NUM_NODES == 1)) || use_own_interface || exit 1

# The job's own folder on this node's disks: the prolog has made it, the epilog removes it.
own_folder=$(cat /etc/gpucluster/scratch 2>/dev/null || echo /var/lib/gpucluster/scratch)/jobs/${SLURM_JOB_ID:-none}
[ ! -d "$own_folder" ] || export GPUCLUSTER_SCRATCH=$own_folder

# A launcher that loses sight of some ranks starts each as a world of its own, and each trains alone. A job that may lose
# nodes has no fixed size.
if [ "${GPUCLUSTER_PREFLIGHT:-off}" != off ] && [ -z "${MIN_NODES:-}" ] && [ -z "${GPUCLUSTER_LABEL:-}" ] &&
  [ "$WORLD_SIZE" -ne $((NUM_NODES * RANKS_PER_NODE)) ]; then
  echo "[$LABEL $NODE] exited with 1 at ${EPOCHREALTIME/,/.}: this rank was told of a world of $WORLD_SIZE ranks, expected" \
    "$NUM_NODES nodes x $RANKS_PER_NODE ranks = $((NUM_NODES * RANKS_PER_NODE)); --preflight off skips this check"
  exit 1
fi

# Which shards are this rank's. Processes that read no data, as servers, have none.
tell_channels() {
  local told name list
  export GPUCLUSTER_NODE=$NODE
  told=$(bash "$GPUCLUSTER_JOB_DIR/library.sh" channels --write-lists 2>&1) || {
    echo "[$LABEL $NODE] exited with 1 at ${EPOCHREALTIME/,/.}: its channels cannot be told: ${told##*$'\n'}"
    return 1
  }
  while read -r name list; do
    [ ! -f "$list" ] || export "GPUCLUSTER_CHANNEL_${name^^}=$list"
  done <<<"$told"
}
if [ -d "$GPUCLUSTER_JOB_DIR/channels" ]; then
  case ${GPUCLUSTER_LABEL:-} in '' | chief) tell_channels || exit 1 ;; esac
fi

# NCCL says in a file which network it took, for preflight.sh. A report that the user asked for goes where they want it.
if [ -d "$GPUCLUSTER_JOB_DIR/nccl" ] && [ -z "${NCCL_DEBUG:-}${NCCL_DEBUG_FILE:-}" ]; then
  export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT NCCL_DEBUG_FILE="$GPUCLUSTER_JOB_DIR/nccl/rank-$LABEL.%p.txt"
fi

readonly END=$'\004'
scratch=$(mktemp --directory)
trap 'rm -rf "$scratch"' EXIT
mkfifo "$scratch/copy"
tail -n 60 <"$scratch/copy" >"$scratch/tail" &
tail_pid=$!
# Progress bars end their lines with a carriage return. A last line without an end is given one: we end the output with
# END, which is removed here. (With the address `$` for that, sed would hold back each line until the next.)
exec {output}> >(trap '' TERM INT
  stdbuf -oL tr '\r' '\n' | tee "$scratch/copy" | LC_ALL=C stdbuf -oL sed "/^$END\$/d; s/$END\$//; s/^/[$LABEL $NODE] /")
labeller=$!

# The job's variables and secrets, in a bash that has none of ours: they may have the same names.
# shellcheck disable=SC2016
with_own_environment='for file in env.sh secrets.sh; do
  [ ! -e "$GPUCLUSTER_JOB_DIR/$file" ] || source "$GPUCLUSTER_JOB_DIR/$file"
done
exec -- "$@"'

# A session of its own, so that it can be ended with all that it started; and it dies with this script.
stopped='' program='' killer=''
trap stop TERM INT
setsid setpriv --pdeathsig KILL -- env --default-signal=USR1,USR2 bash -c "$with_own_environment" bash "$@" >&"$output" 2>&1 {output}>&- </dev/null &
program=$!
[ -z "$stopped" ] || stop
await "$program"
code=$?
at=${EPOCHREALTIME/,/.}
kill -KILL -- "-$program" 2>/dev/null
[ -z "$killer" ] || kill "$killer" 2>/dev/null
trap '' PIPE
echo "$END" >&"$output"
exec {output}>&-
timeout 5 tail --pid="$labeller" -s 0.05 -f /dev/null || kill "$labeller" "$tail_pid" 2>/dev/null
wait "$tail_pid"

if [ "$code" -ne 0 ] && [ -z "$stopped" ]; then
  echo "[$LABEL $NODE] exited with $code at $at: $(reason_of "$code" "$scratch/tail")"
fi
exit "$code"
