# shellcheck shell=bash
# Sourced where a step of the job is started. With a container_image the ranks run in it: pyxis, a plug-in of Slurm's, gives
# srun the options. CONTAINER holds them, for every srun that starts ranks itself; empty without an image.

CONTAINER=()
# What horovodrun and mpirun start, which run outside of it.
export HOSTED_RANK=rank.sh

# Ours that an image may set too: the image's would be taken.
CONTAINER_VARIABLES=MASTER_ADDR,MASTER_PORT,WORLD_SIZE,NUM_NODES,GPUS_PER_NODE,RANKS_PER_NODE,OMP_NUM_THREADS,NCCL_NET,FI_PROVIDER

if [ -n "${CONTAINER_IMAGE:-}" ]; then
  HOSTED_RANK=container-rank.sh
  CONTAINER_SEES=$GPUCLUSTER_JOB_DIR:$GPUCLUSTER_JOB_DIR${CONTAINER_MOUNTS:+,$CONTAINER_MOUNTS}
  # what NCCL must be told on this instance type, which rank.sh reads
  NODE_VARIABLES=/etc/gpucluster/job-environment.sh
  [ ! -e "$NODE_VARIABLES" ] || CONTAINER_SEES+=,$NODE_VARIABLES:$NODE_VARIABLES:ro
  # a copy of the job's data is there
  if grep -qs '"mode": "copy"' "$GPUCLUSTER_JOB_DIR/channels.json"; then
    COPIES=$(cat /etc/gpucluster/scratch 2>/dev/null || echo /var/lib/gpucluster/scratch)/cache
    CONTAINER_SEES+=,$COPIES:$COPIES:ro
  fi
  [ -z "${GPUCLUSTER_RAM:-}" ] || CONTAINER_SEES+=,$GPUCLUSTER_RAM:$GPUCLUSTER_RAM
  # One container for each node and job, made by the first step that names it; the job's end removes it.
  CONTAINER=(
    --container-name="gpucluster-$SLURM_JOB_ID"
    --container-mounts="$CONTAINER_SEES"
    --container-workdir="$GPUCLUSTER_JOB_DIR/code"
    --container-env="$CONTAINER_VARIABLES"
    --container-writable --no-container-remap-root --no-container-entrypoint --no-container-mount-home
  )
fi

# Once on each node, before any rank: ranks that start together would all fetch the image.
make_containers() {
  [ -n "${CONTAINER_IMAGE:-}" ] || return 0
  local began=$SECONDS code=0 said=$GPUCLUSTER_JOB_DIR/container.txt last
  srun --overlap --nodes="$NUM_NODES" --ntasks="$NUM_NODES" --ntasks-per-node=1 --cpu-bind=none --input=none \
    --container-image="$CONTAINER_IMAGE" "${CONTAINER[@]}" true >"$said" 2>&1 {OUTPUT}>&- &
  LAUNCHER_PID=$!
  await "$LAUNCHER_PID" || code=$?
  LAUNCHER_PID=''
  [ -z "$STOPPED" ] || exit 143
  if [ "$code" -eq 0 ]; then
    echo "[container] $CONTAINER_IMAGE is on $NUM_NODES node$( ((NUM_NODES == 1)) || echo s) ($((SECONDS - began)) s)"
    return
  fi
  sed 's/^/[container] /' "$said"
  last=$(grep -v '^srun: error: .*task' "$said" | tail -n 1)
  case $last in
    *'unrecognized option'*) give_up "the nodes have no pyxis, which a job with a container_image needs" ;;
    *) give_up "the container image $CONTAINER_IMAGE could not be started on the nodes: $last" ;;
  esac
}
