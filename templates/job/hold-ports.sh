#!/usr/bin/env bash
# Says which ports of this node are the job's, and keeps them until its input ends. usage: hold-ports.sh COUNT
set -euo pipefail

# shellcheck source=templates/job/network.sh
source "$GPUCLUSTER_JOB_DIR/network.sh"

address=$(address_of "$SLURMD_NODENAME")
ports=()
for ((i = 0; i < $1; i++)); do
  reserve_port
  ports+=("$PORT")
done
echo "$SLURMD_NODENAME $address ${ports[*]}"
exec cat >/dev/null
