#!/usr/bin/env bash
# Gives a signal to the programs of this job's ranks on this node, by way of rank.sh: launchers would die of it.
# usage: signal-ranks.sh USR1
set -euo pipefail

pkill --signal "$1" --full "^bash $GPUCLUSTER_JOB_DIR/rank.sh " || true # ranks may have ended
