#!/usr/bin/env bash
# horovodrun asks this once a second for the nodes and the ranks on each. Slurm takes a node that fails out of the job's list.
set -euo pipefail

# the ID of an array's last element is that of the array too: squeue would list the nodes of all elements
element=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
nodes=$(squeue --noheader --jobs="${element:-$SLURM_JOB_ID}" --format=%N)
# without an answer it keeps what it knows
[ -n "$nodes" ] || exit 1
scontrol show hostnames "$nodes" | sed "s/\$/:$RANKS_PER_NODE/"
