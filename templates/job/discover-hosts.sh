#!/usr/bin/env bash
# horovodrun runs this once a second to get the nodes and the number of ranks on each. Slurm removes a failed node from the job.
set -euo pipefail

# the last element of an array has the array's own id as SLURM_JOB_ID, for which squeue lists the nodes of all elements
element=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
nodes=$(squeue --noheader --jobs="${element:-$SLURM_JOB_ID}" --format=%N)
# if this script fails, horovodrun keeps its current list
[ -n "$nodes" ] || exit 1
scontrol show hostnames "$nodes" | sed "s/\$/:$RANKS_PER_NODE/"
