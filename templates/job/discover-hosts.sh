#!/usr/bin/env bash
# horovodrun asks this once a second for the nodes and the ranks on each. Slurm takes a node that fails out of the job's list.
set -euo pipefail

nodes=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%N)
# without an answer it keeps what it knows
[ -n "$nodes" ] || exit 1
scontrol show hostnames "$nodes" | sed "s/\$/:$RANKS_PER_NODE/"
