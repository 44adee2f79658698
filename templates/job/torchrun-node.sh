#!/usr/bin/env bash
# One torchrun agent, on each node; started by srun with the command of the ranks.
set -euo pipefail

# shellcheck source=templates/job/network.sh
source "$GPUCLUSTER_JOB_DIR/network.sh"

# Told outright: left to itself, torchrun compares host names to find out who is host, and reports itself under a name that
# may lead to localhost.
address=$(address_of "$SLURMD_NODENAME")
is_host=$([ "$SLURM_NODEID" -eq 0 ] && echo true || echo false)

exec torchrun --nnodes="$NUM_NODES" --nproc-per-node="$RANKS_PER_NODE" --max-restarts=0 \
  --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
  --rdzv-conf="is_host=$is_host,join_timeout=300" --local-addr="$address" \
  --no-python bash "$GPUCLUSTER_JOB_DIR/rank.sh" "$@"
