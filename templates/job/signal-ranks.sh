#!/usr/bin/env bash
# Gives a signal to the programs of this job's ranks on this node and, as Slurm does it, to nothing that those have started.
# usage: signal-ranks.sh USR1
set -euo pipefail

for rank in $(pgrep --full "^bash $GPUCLUSTER_JOB_DIR/rank.sh " || true); do
  # servers and schedulers have nothing to do with it
  label=$(tr '\0' '\n' <"/proc/$rank/environ" 2>/dev/null | sed -n 's/^GPUCLUSTER_LABEL=//p') || continue
  case $label in '' | chief) ;; *) continue ;; esac
  # of what rank.sh has started, the program leads a session of its own
  for child in $(pgrep --parent "$rank" || true); do
    [ "$(ps -o sid= -p "$child" | tr -d ' ')" != "$child" ] || kill "-$1" "$child" 2>/dev/null || true
  done
done
