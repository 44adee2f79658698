#!/usr/bin/env bash
# One rank of a launcher that runs outside of the job's container: goes into this node's, by a step of the job.
set -euo pipefail

# Open MPI's ranks find its daemon by a folder there.
[ -z "${OMPI_COMM_WORLD_RANK:-}" ] || CONTAINER_MOUNTS=/tmp:/tmp${CONTAINER_MOUNTS:+,$CONTAINER_MOUNTS}
# shellcheck source=templates/job/container.sh
source "$GPUCLUSTER_JOB_DIR/container.sh"

# The container outlives the launcher, the step must not.
exec setpriv --pdeathsig TERM -- srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist="$(hostname --short)" \
  --cpu-bind=none --input=none "${CONTAINER[@]}" bash "$GPUCLUSTER_JOB_DIR/rank.sh" "$@"
