# shellcheck shell=bash disable=SC2034,SC2153 # FAILED_NODE and LAUNCHER_PID are job.sh's, and so is NODES
# Sourced by job.sh. Before the command starts: what the job's channels hold, and a copy on each node of those that want one.

CHANNELS=$GPUCLUSTER_JOB_DIR/channels

prepare_channels() {
  [ -e "$GPUCLUSTER_JOB_DIR/channels.json" ] || return 0
  mkdir -p "$CHANNELS"
  rm -f "$CHANNELS"/failed-*
  printf '%s\n' "${NODES[@]}" >"$CHANNELS/nodes.txt"
  before_ranks look_at_channels "$CHANNELS/said.txt" ||
    give_up "$(sed -n 's/^error: //p' "$CHANNELS/said.txt" | tail -n 1 | grep . || channels_ended 'be listed' "$CHANNELS/said.txt")"
  grep -qs '"mode": "copy"' "$CHANNELS"/*/index.json || return 0
  before_ranks copy_channels "$CHANNELS/copied.txt" || give_up_on_copies
}

look_at_channels() { exec bash "$GPUCLUSTER_JOB_DIR/library.sh" prepare; }

copy_channels() {
  exec srun --overlap --nodes="$NUM_NODES" --ntasks="$NUM_NODES" --ntasks-per-node=1 --cpu-bind=none --input=none \
    --kill-on-bad-exit=1 bash "$GPUCLUSTER_JOB_DIR/library.sh" fetch
}

# `before_ranks FUNCTION FILE`: its output goes to the file, and what it says of channels to the log; it ends when the job is ended.
before_ranks() {
  local code=0
  "$1" >"$2" 2>&1 {OUTPUT}>&- &
  LAUNCHER_PID=$!
  await "$LAUNCHER_PID" || code=$?
  LAUNCHER_PID=''
  [ -z "$STOPPED" ] || exit 143
  grep '^\[channels\]' "$2" || true
  return "$code"
}

give_up_on_copies() {
  local said=("$CHANNELS"/failed-*)
  [ -s "${said[0]}" ] || give_up "$(channels_ended 'be copied to the nodes' "$CHANNELS/copied.txt")"
  { read -r FAILED_NODE; read -r REASON; } <"${said[0]}"
  exit 1
}

channels_ended() {
  echo "the channels could not $1: $(grep -v '^\[channels\]' "$2" | tail -n 1)"
}
