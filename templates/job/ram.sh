# shellcheck shell=bash
# Sourced by job.sh, for a job whose nodes carry a file system in their memory: made and filled before the command starts,
# watched while it runs, written back when it ends. What the job cannot do any more, because it was stopped, Slurm's epilog does.
# shellcheck disable=SC2034 # job.sh reads FAILED_NODE, REASON and EXIT_CODE

RAM=$GPUCLUSTER_JOB_DIR/ram RAM_PROGRAM=/opt/gpucluster/bin/job-ram RAM_MADE='' RAM_WATCHER=''

make_ram() {
  local began=$SECONDS
  mkdir -p "$RAM"
  rm -f "$RAM"/{lost,exported}
  if ((${SLURM_RESTART_COUNT:-0} > 0)); then
    echo "[ram] run $((SLURM_RESTART_COUNT + 1)) of this job: what the last one had in $GPUCLUSTER_RAM alone is gone; it is made anew"
  fi
  on_ram_nodes make sudo -n "$RAM_PROGRAM" serve "$SLURM_JOB_ID" "$GPUCLUSTER_JOB_DIR" "${NODES[@]}" ||
    give_up_ram make "$GPUCLUSTER_RAM could not be made"
  # shellcheck disable=SC2016
  on_ram_nodes fill bash -c 'sudo -n "$0" mount && "$0" fill' "$RAM_PROGRAM" || give_up_ram fill "$GPUCLUSTER_RAM could not be filled"
  RAM_MADE=1
  echo "[ram] $GPUCLUSTER_RAM is in the memory of $NUM_NODES node$( ((NUM_NODES == 1)) || echo s) ($((SECONDS - began)) s)"
  "$RAM_PROGRAM" watch "$SLURM_JOB_ID" "$GPUCLUSTER_JOB_DIR" "$$" "${NODES[@]}" {OUTPUT}>&- &
  RAM_WATCHER=$!
}

# on_ram_nodes NAME COMMAND...: once on each node, the first that fails ends the others; what they say is in the log at once.
on_ram_nodes() {
  local said=$RAM/$1.txt code=0 shown
  shift
  : >"$said"
  srun --overlap --nodes="$NUM_NODES" --ntasks="$NUM_NODES" --ntasks-per-node=1 --cpu-bind=none --kill-on-bad-exit=1 \
    --input=none "$@" >"$said" 2>&1 {OUTPUT}>&- &
  LAUNCHER_PID=$!
  tail --pid="$LAUNCHER_PID" -s 0.2 -n +1 -f "$said" {OUTPUT}>&- |
    sed -u -E '/^(srun|slurmstepd-[^ ]+): /d; s/^/[ram] /' {OUTPUT}>&- &
  shown=$!
  await "$LAUNCHER_PID" || code=$?
  LAUNCHER_PID=''
  await "$shown" || true
  [ -z "$STOPPED" ] || exit 143
  return "$code"
}

# ram_error NAME: what the node that failed first said: its name and the reason.
ram_error() { sed -nE 's/^error: ([^ :]+): (.*)$/\1\t\2/p' "$RAM/$1.txt" | head -n 1; }

# give_up_ram NAME WHAT
give_up_ram() {
  local node='' reason=''
  IFS=$'\t' read -r node reason < <(ram_error "$1") || reason=$(tail -n 1 "$RAM/$1.txt")
  FAILED_NODE=$node
  give_up "$2: ${reason:-no node said why}"
}

# At the job's own end, whatever its exit code. A job whose results did not get out of memory has failed. One that is stopped
# has no time left: the epilog does it.
export_ram() {
  local node='' reason='' code=0
  [ -n "$RAM_MADE" ] || return 0
  kill "$RAM_WATCHER" 2>/dev/null || true
  [ -z "$STOPPED" ] || return 0
  if [ -z "${GPUCLUSTER_RAM_EXPORT:-}" ]; then
    echo "[ram] $GPUCLUSTER_RAM ends with the job, and what is in it: the cluster file names no place to export to"
    return 0
  fi
  on_ram_nodes export "$RAM_PROGRAM" export || code=$?
  if [ "$code" -eq 0 ]; then
    touch "$RAM/exported"
    return 0
  fi
  IFS=$'\t' read -r node reason < <(ram_error export) || true
  reason="$GPUCLUSTER_RAM was not written back: ${reason:-no node said why}"
  if [ "$EXIT_CODE" -eq 0 ]; then
    EXIT_CODE=1 FAILED_NODE=$node REASON=$reason
  else
    echo "error: $reason"
  fi
}

# lost_ram REASON: why the job was stopped, where that was the loss of a part; what else that reason means.
lost_ram() {
  if [ -z "$RAM_MADE" ]; then
    echo "$1"
  elif [ -s "$RAM/lost" ]; then
    echo "lost $(cat "$RAM/lost") and its part of $GPUCLUSTER_RAM; what was there alone is gone"
  else
    case $1 in 'lost the node '*) echo "$1; what was in $GPUCLUSTER_RAM alone is gone" ;; *) echo "$1" ;; esac
  fi
}
