#!/usr/bin/env bash
# One rank that mpirun started. Open MPI numbers them node by node, and does not say which node a rank is on: horovodrun hands
# every rank the first node's environment, and so SLURMD_NODENAME too.
set -euo pipefail

read -ra nodes <<<"$GPUCLUSTER_NODES"
export NODE_RANK=$((OMPI_COMM_WORLD_RANK / RANKS_PER_NODE))
export GPUCLUSTER_NODE=${nodes[NODE_RANK]}
exec bash "$GPUCLUSTER_JOB_DIR/$HOSTED_RANK" "$@"
