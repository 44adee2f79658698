# shellcheck shell=bash
# Sourced by job.sh. What is looked at before the user's command starts, and what NCCL says of its network while it runs.
# Only what is proven to be wrong ends the job; what could not be looked at is said, and the job goes on.
# shellcheck disable=SC2034 # job.sh reads FAILED_NODE, REASON and EXIT_CODE

PREFLIGHT=$GPUCLUSTER_JOB_DIR/preflight NCCL_WATCHER=''
# The system's: an environment may hold none, and starts slower.
PREFLIGHT_PYTHON=/usr/bin/python3
[ -x "$PREFLIGHT_PYTHON" ] || PREFLIGHT_PYTHON=python3

preflight() {
  [ "$GPUCLUSTER_PREFLIGHT" != off ] || return 0
  local began=$EPOCHREALTIME code=0
  rm -rf "$PREFLIGHT"/{report.json,failure,nccl.json,said.txt,allreduce.txt,nccl-tests.txt} "$GPUCLUSTER_JOB_DIR/nccl"
  look_at_nodes >"$PREFLIGHT/said.txt" 2>&1 {OUTPUT}>&- &
  LAUNCHER_PID=$!
  await "$LAUNCHER_PID" || true
  LAUNCHER_PID=''
  [ -z "$STOPPED" ] || exit 143
  "$PREFLIGHT_PYTHON" -I "$PREFLIGHT/judge.py" "$PREFLIGHT" "$(seconds_since "$began")" "${NODES[@]}" || code=$?
  settle "$code"
}

settle() {
  [ "$1" -ne 3 ] || give_up_as_told
  [ "$1" -eq 0 ] || echo "[preflight] warning: it came to no verdict; the job goes on"
}

look_at_nodes() {
  local gpus=() probe=("$PREFLIGHT_PYTHON" -I "$PREFLIGHT/probe.py" "$PREFLIGHT")
  if ((NUM_NODES == 1)); then exec timeout --kill-after=5 60 "${probe[@]}"; fi
  ((GPUS_PER_NODE == 0)) || gpus=(--gres="gpu:$GPUS_PER_NODE")
  # --overlap: the launcher's step, which comes next, need not wait for this one's resources
  exec timeout --kill-after=5 150 srun --overlap "${gpus[@]}" --nodes="$NUM_NODES" --ntasks="$NUM_NODES" --ntasks-per-node=1 \
    --cpu-bind=none --kill-on-bad-exit=0 --input=none "${probe[@]}"
}

seconds_since() { awk -v from="${1/,/.}" -v to="${EPOCHREALTIME/,/.}" 'BEGIN { printf "%.2f", to - from }'; }

give_up_as_told() {
  { read -r FAILED_NODE; read -r REASON; } <"$PREFLIGHT/failure"
  exit 1
}

# A real all-reduce, started as the job's own ranks will be, in their environment; and nccl-tests where the machine has them.
full_preflight() {
  [ "$GPUCLUSTER_PREFLIGHT" = full ] || return 0
  local code=0
  timed 300 all_reduce "$PREFLIGHT/allreduce.txt" || code=$?
  timed 300 nccl_tests "$PREFLIGHT/nccl-tests.txt" || true
  "$PREFLIGHT_PYTHON" -I "$PREFLIGHT/bandwidth.py" "$PREFLIGHT" "$code" || code=$?
  settle "$code"
}

# `timed SECONDS FUNCTION FILE`: its output goes to the file; it is ended at its limit, which is status 124, and when the job is.
timed() {
  local code=0 timer began=$SECONDS
  "$2" >"$3" 2>&1 {OUTPUT}>&- &
  LAUNCHER_PID=$!
  # one process, which leaves no other behind when it is not needed any more
  "$PREFLIGHT_PYTHON" -Ic "import os, time; time.sleep($1); os.kill($LAUNCHER_PID, 15)" >/dev/null 2>&1 {OUTPUT}>&- &
  timer=$!
  await "$LAUNCHER_PID" || code=$?
  LAUNCHER_PID=''
  kill "$timer" 2>/dev/null || true
  [ -z "$STOPPED" ] || exit 143
  ((SECONDS - began < $1)) || return 124
  return "$code"
}

all_reduce() {
  if [ -n "${NUM_SERVERS+set}" ]; then
    echo "[0 ${NODES[0]}] {\"skipped\": \"jobs of $GPUCLUSTER_LAUNCHER have none\"}"
    return
  fi
  # shellcheck disable=SC2034 # what `launch` starts
  COMMAND=(python "$PREFLIGHT/allreduce.py")
  launch
}

# Deep Learning AMIs bring them along, built with MPI. Across nodes Open MPI starts them, as it would a job of mpirun.
nccl_tests() {
  local program found=''
  ((GPUS_PER_NODE > 0)) || return 0
  for program in /usr/local/cuda*/efa/test-cuda-*/all_reduce_perf; do [ ! -x "$program" ] || found=$program; done
  [ -n "$found" ] || return 0
  # shellcheck source=templates/job/mpi.sh
  source "$GPUCLUSTER_JOB_DIR/mpi.sh"
  RANKS_PER_NODE=$GPUS_PER_NODE prepare_mpi || return
  exec mpirun "${MPI_OPTIONS[@]}" --hostfile "$HOSTFILE" -np "$((NUM_NODES * GPUS_PER_NODE))" --bind-to none \
    "$found" -b 8 -e 1G -f 4 -g 1 -c 1 -n 20 </dev/null
}

# NCCL reports to a file for each rank (rank.sh), or into the log where the user's NCCL_DEBUG says so.
watch_nccl() {
  [ "$GPUCLUSTER_PREFLIGHT" != off ] && ((NUM_NODES > 1 && GPUS_PER_NODE > 0)) || return 0
  mkdir -p "$GPUCLUSTER_JOB_DIR/nccl"
}

start_nccl_watcher() {
  [ -d "$GPUCLUSTER_JOB_DIR/nccl" ] || return 0
  nccl watch "$WORLD_SIZE" "$LAUNCHER_PID" {OUTPUT}>&- &
  NCCL_WATCHER=$!
}

nccl() {
  local verb=$1 log=''
  shift
  case ${NCCL_DEBUG:-} in INFO | TRACE) log=$LOG ;; esac
  exec "$PREFLIGHT_PYTHON" -I "$PREFLIGHT/nccl.py" "$verb" "$PREFLIGHT" "$GPUCLUSTER_JOB_DIR/nccl" "$log" "$LOG_START" "$@"
}

# At the end, whatever the ranks have reported by then. A job that ran without the network that it requires has failed.
finish_nccl() {
  [ -n "$NCCL_WATCHER" ] || return 0
  kill "$NCCL_WATCHER" 2>/dev/null
  (nccl report) || [ -n "$STOPPED" ] || [ ! -e "$PREFLIGHT/failure" ] || {
    { read -r FAILED_NODE; read -r REASON; } <"$PREFLIGHT/failure"
    EXIT_CODE=1
  }
}

# Lines of result.json.
preflight_result() {
  local name
  for name in report nccl; do
    [ -s "$PREFLIGHT/$name.json" ] || continue
    printf '"%s": %s,\n  ' "${name/report/preflight}" "$(cat "$PREFLIGHT/$name.json")"
  done
}
