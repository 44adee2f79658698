# shellcheck shell=bash disable=SC2153,SC2004 # NODES is job.sh's; nodes' names are no numbers
# Where each TensorFlow process listens. Every process must know it of every other before the first one starts.

declare -A ADDRESS_OF=() PORTS_OF=()

# Reserves COUNT ports on each of the nodes for as long as the job lasts. `hold_ports COUNT OPTIONS... -- NODE...`
hold_ports() {
  local count=$1 options=() held node address ports
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  exec {held}< <(exec srun --overlap --overcommit --cpu-bind=none "${options[@]}" --nodes=$# --ntasks=$# --ntasks-per-node=1 \
    bash "$GPUCLUSTER_JOB_DIR/hold-ports.sh" "$count" <&"$LEASHED" {LEASH}>&- {LEASHED}>&-)
  for _; do
    read -r -t 120 -u "$held" node address ports || { echo "error: no ports to listen on were reserved on the nodes $*"; return 1; }
    ADDRESS_OF[$node]=$address PORTS_OF[$node]=$ports
  done
}

# One for each node given, as JSON, in ENDPOINTS. A node that is given twice gives two.
endpoints() {
  local node ports
  ENDPOINTS=''
  for node; do
    read -r -a ports <<<"${PORTS_OF[$node]}"
    ENDPOINTS+="${ENDPOINTS:+, }\"${ADDRESS_OF[$node]}:${ports[0]}\""
    PORTS_OF[$node]=${ports[*]:1}
  done
}

# TensorFlow's description of the job in TF_CLUSTER.
describe_cluster() {
  local nodes=() places=() node i most
  ((NUM_SERVERS == 0)) || mapfile -t nodes < <(server_nodes)
  most=$((RANKS_PER_NODE + 1 + (NUM_SERVER_NODES > 0 ? 0 : NUM_SERVERS)))
  hold_ports "$most" -- "${NODES[@]}" || return
  ((NUM_SERVER_NODES == 0)) || hold_ports "$NUM_SERVERS" --het-group=1 -- "${nodes[@]}" || return
  for node in "${NODES[@]}"; do for ((i = 0; i < RANKS_PER_NODE; i++)); do places+=("$node"); done; done
  endpoints "${places[@]}"
  TF_CLUSTER="\"worker\": [$ENDPOINTS]"
  if ((NUM_SERVERS > 0)); then
    places=()
    for ((i = 0; i < NUM_SERVERS; i++)); do places+=("${nodes[i % ${#nodes[@]}]}"); done
    endpoints "${places[@]}"
    TF_CLUSTER+=", \"ps\": [$ENDPOINTS]"
    endpoints "${NODES[0]}"
    TF_CLUSTER+=", \"chief\": [$ENDPOINTS]"
  fi
  export TF_CLUSTER="{$TF_CLUSTER}"
}
