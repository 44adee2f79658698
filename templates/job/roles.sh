# shellcheck shell=bash disable=SC2153 # NODES is job.sh's
# For jobs whose processes have different roles, each role a Slurm step. Sourced by job.sbatch, on the job's first node.
#
# Servers never end by themselves, and a lost process leaves the others waiting for ever. So the job ends with its leading
# step, or with the first step that fails. All other steps read from one pipe, the leash, and end when it is let go: by us,
# or by the kernel if we are killed.

STEPS=() LEASH='' LEADER=''

open_leash() {
  local pipe
  pipe=$(mktemp --dry-run)
  mkfifo --mode=600 "$pipe"
  # shellcheck disable=SC2094 # both ends, so that opening waits for nobody
  exec {LEASH}<>"$pipe" {LEASHED}<"$pipe"
  rm "$pipe"
  trap let_go TERM
}

let_go() {
  [ -z "$LEASH" ] || exec {LEASH}>&-
  LEASH=''
  [ -z "$LEADER" ] || kill -TERM "$LEADER" 2>/dev/null || true
}

# `leashed OPTIONS... COMMAND...`: a step that runs until the job ends.
leashed() {
  srun --overlap --kill-on-bad-exit=1 "${CONTAINER[@]}" "$@" <&"$LEASHED" {LEASH}>&- {LEASHED}>&- &
  STEPS+=($!)
}

# `leading OPTIONS... COMMAND...`: the step that the job ends with.
leading() {
  srun --overlap --kill-on-bad-exit=1 "${CONTAINER[@]}" "$@" </dev/null {LEASH}>&- {LEASHED}>&- &
  LEADER=$!
  STEPS+=("$LEADER")
}

# All ranks, on the workers' nodes. `workers leading|leashed`
workers() {
  local cpus=$((SLURM_CPUS_ON_NODE / RANKS_PER_NODE))
  "$1" --nodes="$NUM_NODES" --ntasks="$WORLD_SIZE" --ntasks-per-node="$RANKS_PER_NODE" \
    --cpus-per-task="$((cpus > 0 ? cpus : 1))" bash "$GPUCLUSTER_JOB_DIR/role.sh" worker "${COMMAND[@]}"
}

# One process on the first node, which shares it with the ranks there. `single leading|leashed ROLE COMMAND...`
single() {
  local kind=$1
  shift
  "$kind" --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist="${NODES[0]}" --overcommit --cpu-bind=none \
    bash "$GPUCLUSTER_JOB_DIR/role.sh" "$@"
}

# One server after the other, on each node in turn: nodes of their own where the job has some, or the workers'. `servers COMMAND...`
servers() {
  local group=() nodes
  nodes=$(server_nodes | wc -l)
  # a container is made on the workers' nodes before: not on these
  ((NUM_SERVER_NODES == 0)) || group=(--het-group=1 ${CONTAINER_IMAGE:+"--container-image=$CONTAINER_IMAGE"})
  leashed "${group[@]}" --nodes="$nodes" --ntasks="$NUM_SERVERS" --distribution=cyclic --overcommit --cpu-bind=none \
    bash "$GPUCLUSTER_JOB_DIR/role.sh" server "$@"
}

# The nodes that servers run on, one a line.
server_nodes() {
  if ((NUM_SERVER_NODES > 0)); then
    printf '%s\n' "${SERVER_NODES[@]}"
  else
    printf '%s\n' "${NODES[@]:0:NUM_SERVERS}"
  fi
}

# Returns the leading step's exit code, or that of the step that failed. What is left then has GRACE seconds to end by itself.
# `supervise GRACE`
supervise() {
  local ended code deadline
  while :; do
    code=0 ended=''
    wait -n -p ended "${STEPS[@]}" || code=$?
    [ -n "${ended:-}" ] || continue # a signal: bash has unset it
    forget "$ended"
    [ "$code" -eq 0 ] && [ "$ended" != "$LEADER" ] || break
  done
  deadline=$((SECONDS + (code == 0 ? $1 : 0)))
  while ((SECONDS < deadline)) && any_left; do sleep 0.1; done
  let_go
  deadline=$((SECONDS + 9))
  while ((SECONDS < deadline)) && any_left; do sleep 0.1; done
  kill -KILL "${STEPS[@]}" 2>/dev/null || true
  return "$code"
}

forget() {
  local step left=()
  for step in "${STEPS[@]}"; do [ "$step" = "$1" ] || left+=("$step"); done
  STEPS=("${left[@]}")
}

any_left() {
  local step
  for step in "${STEPS[@]}"; do ! kill -0 "$step" 2>/dev/null || return 0; done
  return 1
}
