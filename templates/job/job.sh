# shellcheck shell=bash
# Sourced by job.sbatch, on the job's first node. `run_job` finds the nodes, runs `launch`, and leaves result.json however it ends.

# shellcheck source=templates/job/network.sh
source "$GPUCLUSTER_JOB_DIR/network.sh"
# shellcheck source=templates/job/preflight.sh
source "$GPUCLUSTER_JOB_DIR/preflight.sh"
# shellcheck source=templates/job/container.sh
source "$GPUCLUSTER_JOB_DIR/container.sh"

EXIT_CODE=1 FAILED_RANK='' FAILED_NODE='' REASON='' STOPPED='' LAUNCHER_PID='' LABELLER_PID=''

now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

run_job() {
  STARTED_AT=$(now)
  LOG=$GPUCLUSTER_JOB_DIR/log.txt
  LOG_START=$(stat --format=%s "$LOG" 2>/dev/null || echo 0)
  rm -f "$GPUCLUSTER_JOB_DIR/result.json"
  trap finish EXIT
  trap stop TERM INT
  find_nodes
  label_output
  preflight
  if declare -F make_ram >/dev/null; then make_ram; fi
  if declare -F prepare_channels >/dev/null; then prepare_channels; fi
  make_containers
  full_preflight
  watch_nccl # not before: the reports of the all-reduce above are not the job's
  launch >&"$OUTPUT" 2>&1 {OUTPUT}>&- &
  LAUNCHER_PID=$!
  start_nccl_watcher
  EXIT_CODE=0
  await "$LAUNCHER_PID" || EXIT_CODE=$?
  drain_output
  if declare -F export_ram >/dev/null; then export_ram; fi
  exit "$EXIT_CODE"
}

# Slurm tells this script alone, as `signal` of the job asks for. Of the job's other processes only the ranks' programs
# hear of it.
signal_ranks() {
  local node
  [ -n "$LAUNCHER_PID" ] || return 0
  echo "[launcher] the ranks get SIG$1: the time limit is near"
  for node in "${NODES[@]}"; do
    srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist="$node" --cpu-bind=none --input=none --quiet \
      bash "$GPUCLUSTER_JOB_DIR/signal-ranks.sh" "$1" {OUTPUT}>&- &
  done
}

find_nodes() {
  mapfile -t NODES < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  [ "${#NODES[@]}" -eq "$NUM_NODES" ] || give_up "the job has ${#NODES[@]} nodes (${NODES[*]:-none}), expected $NUM_NODES"
  find_server_nodes
  MASTER_ADDR=$(address_of "${NODES[0]}" 2>&1) || give_up "${MASTER_ADDR#error: }"
  choose_port 2>&1 || give_up "no free port for the ranks to meet at"
  WORLD_SIZE=$((NUM_NODES * RANKS_PER_NODE))
  export MASTER_ADDR WORLD_SIZE
}

# Those of the job's second part; empty where servers have no nodes of their own.
find_server_nodes() {
  SERVER_NODES=()
  [ "${NUM_SERVER_NODES:-0}" -gt 0 ] || return 0
  mapfile -t SERVER_NODES < <(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_1")
  [ "${#SERVER_NODES[@]}" -eq "$NUM_SERVER_NODES" ] ||
    give_up "the job has ${#SERVER_NODES[@]} nodes for servers (${SERVER_NODES[*]:-none}), expected $NUM_SERVER_NODES"
}

give_up() {
  REASON=$1
  exit 1
}

# Every line of the log says where it is from: ranks label their own, what is left is the launcher's.
# horovodrun puts a label of its own before each line, and so does the mpirun that it starts.
label_output() {
  exec {OUTPUT}> >(trap '' TERM INT
    exec stdbuf -oL sed -E 's/^\[([0-9]+,)?[0-9]+\]<std(out|err)>: ?//; /^\[([0-9]+|scheduler|chief|server-[0-9]+) [^]]+\] /!s/^/[launcher] /')
  LABELLER_PID=$!
}

drain_output() {
  [ -n "$LABELLER_PID" ] || return 0
  exec {OUTPUT}>&-
  # a process that a rank left behind may hold the pipe open: it is not waited for
  timeout 5 tail --pid="$LABELLER_PID" -s 0.1 -f /dev/null || kill "$LABELLER_PID" 2>/dev/null || true
  LABELLER_PID=''
}

# A trap interrupts `wait`: wait again until the process is really gone.
await() {
  local code
  while :; do
    code=0
    wait "$1" || code=$?
    kill -0 "$1" 2>/dev/null || return "$code"
  done
}

# scancel and the time limit. Ranks have 5 s to end (rank.sh), the launcher has 7, and Slurm kills what is left after 10
# (KillWait in slurm.conf): the time between is for the result.
stop() {
  [ "$BASHPID" = "$$" ] || exit 143 # see finish
  STOPPED=1
  [ -n "$LAUNCHER_PID" ] || exit 143
  kill -TERM "$LAUNCHER_PID" 2>/dev/null || true
  (sleep 7; kill -KILL "$LAUNCHER_PID" 2>/dev/null) >/dev/null 2>&1 {OUTPUT}>&- &
}

finish() {
  # A process that bash has just forked still has this shell's traps: a signal that ends it at once must not end the job.
  [ "$BASHPID" = "$$" ] || return 0
  trap '' TERM INT
  trap - EXIT
  set +e
  drain_output
  [ -z "$STOPPED" ] || [ "$EXIT_CODE" -ne 0 ] || EXIT_CODE=143
  finish_nccl
  # else it takes the end of a job that never started its command for the loss of a node, and has it run again
  [ -z "${RAM_WATCHER:-}" ] || kill "$RAM_WATCHER" 2>/dev/null
  [ "$EXIT_CODE" -eq 0 ] || explain
  runs_again || rm -f "$GPUCLUSTER_JOB_DIR/secrets.sh"
  write_result
  exit "$EXIT_CODE"
}

# Slurm has put it back into the queue, for a node that was lost or because somebody said so: it needs its secrets again.
# It counts the run that is to come at once; the job's state is still that of the run that ends.
runs_again() {
  local restarts
  [ -n "$STOPPED" ] || return 1
  restarts=$(timeout 10 scontrol --oneliner show job "$SLURM_JOB_ID" 2>/dev/null |
    sed -nE "s/^JobId=$SLURM_JOB_ID .* Restarts=([0-9]+) .*/\1/p")
  [ "${restarts:-0}" -gt "${SLURM_RESTART_COUNT:-0}" ]
}

# Which rank failed, and why; the launcher's own end where no rank says.
explain() {
  local code rank node reason
  if [ -n "$STOPPED" ]; then
    REASON=$(stop_reason)
    if declare -F lost_ram >/dev/null; then REASON=$(lost_ram "$REASON"); fi
  elif [ -n "$REASON" ]; then
    :
  elif IFS=$'\t' read -r _ _ code rank node reason < <(failures | sort -n -k1,1 -k2,2); then
    EXIT_CODE=$code FAILED_RANK=$rank FAILED_NODE=$node REASON=$reason
    echo "error: $(name_of "$rank") on $node exited with $code: $reason"
    return
  else
    REASON="$GPUCLUSTER_LAUNCHER exited with $EXIT_CODE: $(launcher_words)"
  fi
  echo "error: $REASON"
}

# The launcher's last line that says something. mpirun and torchrun end with a block of fields: who, where and how.
launcher_words() {
  this_run | sed -nE 's/^\[launcher\] +(.*[[:alnum:]].*)$/\1/p' | awk '
    { last = $0; value = $0; sub(/^[^:]*: */, "", value) }
    /^Process name: / { last = process = "process " value }
    /^Exit code: / && process { last = process " exited with " value }
    /^host +: / { host = value }
    /^rank +: / { rank = "rank " value }
    /^traceback +: / && rank { last = rank " on " host ": " value }
    END { print last }'
}

# Ranks are numbers; a server, a scheduler, a chief is called so.
name_of() {
  case $1 in [0-9]*) echo "rank $1" ;; *) echo "$1" ;; esac
}

this_run() { tail --bytes="+$((LOG_START + 1))" "$LOG" 2>/dev/null; }

# What rank.sh said of ranks that failed, as: order, time, exit code, rank, node, reason. A rank that lost its peer mostly
# fails because the peer did, and may be quicker to say so: it comes after the others.
failures() {
  this_run | sed -nE 's/^\[([0-9]+|scheduler|chief|server-[0-9]+) ([^]]+)\] exited with ([0-9]+) at ([0-9.]+): (.*)$/\4\t\3\t\1\t\2\t\5/p' |
    awk -F'\t' -v OFS='\t' '{
      print tolower($5) ~ /connection (closed|reset|refused)|broken pipe|peer|horovodinternalerror|nccl|gloo|socket/, $0 }'
}

# slurmstepd says in the log why it ends a job. srun knows the node that was lost.
stop_reason() {
  local lost why
  lost=$(this_run | sed -nE 's/.*srun: error: Node failure on ([^ ]+).*/\1/p' | head -n 1)
  why=$(this_run | sed -nE 's/.*slurmstepd: error: \*\*\* .* CANCELLED AT [^ ]+ DUE TO ([A-Z ]*[A-Z]).*/\1/p' | tail -n 1)
  if [ -n "$lost" ]; then
    echo "lost the node $lost"
    return
  fi
  case $why in
    "NODE FAILURE") echo "lost a node" && return ;;
    PREEMPTION) echo "preempted: a job that goes before it needs its nodes" && return ;;
    "JOB REQUEUE") echo "put back into the queue" && return ;;
  esac
  if [ "$why" = "TIME LIMIT" ] || [ "$(date +%s)" -ge "$((${SLURM_JOB_END_TIME:-9999999999} - 5))" ]; then
    echo "stopped at its time limit"
  else
    echo "cancelled"
  fi
}

# As JSON, whatever bytes it holds.
json_string() {
  local text=${1//\\/\\\\}
  printf '"%s"' "$(printf %s "${text//\"/\\\"}" | iconv -c -f UTF-8 -t UTF-8 | tr -d '\000-\037')"
}

json_list() {
  local item separator=''
  printf '['
  for item; do printf '%s%s' "$separator" "$(json_string "$item")"; separator=', '; done
  printf ']'
}

# A line of result.json, for a job that asked for it. An expression that takes too long costs the metrics, not the result.
metrics() {
  local program=$GPUCLUSTER_JOB_DIR/metrics.py found
  [ -e "$program" ] || return 0
  if ! found=$(timeout --kill-after=1 10 python3 -I "$program" "$GPUCLUSTER_JOB_DIR/metrics.json" "$LOG" "$LOG_START"); then
    echo "warning: the metrics could not be read from the log" >&2
    found=null
  fi
  printf '"metrics": %s,\n  ' "$found"
}

write_result() {
  local node=null reason=null file=$GPUCLUSTER_JOB_DIR/result.json
  [ -z "$FAILED_NODE" ] || node=$(json_string "$FAILED_NODE")
  [ -z "$REASON" ] || reason=$(json_string "$REASON")
  case $FAILED_RANK in [a-z]*) FAILED_RANK=$(json_string "$FAILED_RANK") ;; esac
  cat >"$file.new" <<JSON
{
  "job_id": "$SLURM_JOB_ID",
  "exit_code": $EXIT_CODE,
  "launcher": "$GPUCLUSTER_LAUNCHER",
  "nodes": $NUM_NODES,
  "world_size": $((NUM_NODES * RANKS_PER_NODE)),
  "node_list": $(json_list "${NODES[@]}" ${SERVER_NODES[@]+"${SERVER_NODES[@]}"}),
  "failed_rank": ${FAILED_RANK:-null},
  "failed_node": $node,
  "reason": $reason,
  $(metrics)$(preflight_result)"started_at": "$STARTED_AT",
  "ended_at": "$(now)"
}
JSON
  mv "$file.new" "$file"
}
