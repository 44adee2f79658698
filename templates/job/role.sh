#!/usr/bin/env bash
# One process of a job whose processes have roles: tells it who it is, and ends it when its input ends.
# usage: role.sh worker|server|scheduler|chief COMMAND...
set -uo pipefail

# shellcheck source=templates/job/network.sh
source "$GPUCLUSTER_JOB_DIR/network.sh"

export GPUCLUSTER_ROLE=$1
index=$SLURM_PROCID
shift

tell_worker() {
  export RANK=$index LOCAL_RANK=$SLURM_LOCALID NODE_RANK=$SLURM_NODEID
  own_gpus
}

# Ranks that share a node share out its GPUs: frameworks take all that they see.
own_gpus() {
  local all share=$((GPUS_PER_NODE / RANKS_PER_NODE))
  ((RANKS_PER_NODE > 1 && share > 0)) || return 0
  IFS=, read -r -a all <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 "$((GPUS_PER_NODE - 1))")}"
  CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${all[*]:LOCAL_RANK * share:share}")
  export CUDA_VISIBLE_DEVICES
}

# Nodes without GPUs have an environment of their own.
tell_server() {
  PATH=${GPUCLUSTER_SERVER_PATH:+$GPUCLUSTER_SERVER_PATH:}$PATH
  tell_other "server-$index"
}

# Beside a worker, nothing else must hold GPU memory.
tell_other() {
  export GPUCLUSTER_LABEL=$1 CUDA_VISIBLE_DEVICES=''
}

tell_mxnet() {
  DMLC_NODE_HOST=$(address_of "$SLURMD_NODENAME") || exit 1
  export DMLC_ROLE=$GPUCLUSTER_ROLE DMLC_NODE_HOST
  unset PORT # ps-lite would listen there, every process of the job
}

tell_tensorflow() {
  local type=$GPUCLUSTER_ROLE
  [ "$type" != server ] || type='ps'
  [ "$type" != chief ] || [ "$GPUCLUSTER_LAUNCHER" != tensorflow-mwms ] || type=worker
  export TF_CONFIG="{\"cluster\": $TF_CLUSTER, \"task\": {\"type\": \"$type\", \"index\": $index}}"
  unset TF_CLUSTER
}

# As long as the input lasts; at its end the program is told to end, and that is no failure.
run_leashed() {
  local input program watcher ended='' code
  exec {input}<&0
  bash "$GPUCLUSTER_JOB_DIR/rank.sh" "$@" {input}<&- &
  program=$!
  cat <&"$input" >/dev/null &
  watcher=$!
  trap 'kill -TERM "$program" 2>/dev/null' TERM INT
  while [ -z "${ended:-}" ]; do
    code=0
    wait -n -p ended "$program" "$watcher" || code=$?
  done
  kill "$watcher" "$program" 2>/dev/null
  [ "$ended" = "$program" ] && exit "$code"
  wait "$program"
  exit 0
}

case $GPUCLUSTER_LAUNCHER:$GPUCLUSTER_ROLE in
  tensorflow-mwms:chief) tell_worker ;;
  tensorflow-mwms:worker) ((index > 0)) || exit 0; tell_worker ;; # the first worker is the chief, a step of its own
  *:worker) tell_worker ;;
  *:server) tell_server ;;
  *) tell_other "$GPUCLUSTER_ROLE" ;;
esac
"tell_${GPUCLUSTER_LAUNCHER%%-*}"

case $GPUCLUSTER_LAUNCHER:$GPUCLUSTER_ROLE in
  mxnet-ps:worker | *:chief) exec bash "$GPUCLUSTER_JOB_DIR/rank.sh" "$@" ;;
  *) run_leashed "$@" ;;
esac
