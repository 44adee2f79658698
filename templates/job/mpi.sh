# shellcheck shell=bash
# Open MPI, 4 or 5, inside a Slurm job. Sourced by the script of a job that `mpirun` starts, itself or through horovodrun.

# Where EFA's installer puts it on Amazon's machine images.
if [ -d /opt/amazon/openmpi/bin ]; then
  export PATH=/opt/amazon/openmpi/bin:$PATH LD_LIBRARY_PATH=/opt/amazon/openmpi/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

# Leaves MPI_OPTIONS and the hostfile. The nodes are those that Slurm gave, each with an address of its own in the cluster's
# network: a hostfile that somebody kept from the last job is what mpirun most often hangs on.
prepare_mpi() {
  local node address
  command -v mpirun >/dev/null || { echo "error: no mpirun on $(hostname)" >&2; return 1; }
  HOSTFILE=$GPUCLUSTER_JOB_DIR/hostfile
  declare -A node_of=()
  for node in "${NODES[@]}"; do
    address=$(address_of "$node") || return
    if [ -n "${node_of[$address]:-}" ]; then
      echo "error: ${node_of[$address]} and $node have the same address $address" >&2
      return 1
    fi
    node_of[$address]=$node
    echo "$node slots=$RANKS_PER_NODE"
  done >"$HOSTFILE"
  export GPUCLUSTER_NODES="${NODES[*]}"
  mpi_parameters
  # its daemons are tasks of this job, which Slurm ends when they leave their session
  MPI_OPTIONS=(--leave-session-attached)
}

# The same for both versions, which read different variables and other names.
mpi_parameters() {
  # not from Slurm: it knows of one task on each node, and it would start the daemons with options of its own
  export OMPI_MCA_ras=^slurm PRTE_MCA_ras=^slurm
  export OMPI_MCA_plm=rsh PRTE_MCA_plm=ssh
  export OMPI_MCA_plm_rsh_agent=$GPUCLUSTER_JOB_DIR/bin/ssh PRTE_MCA_plm_ssh_agent=$GPUCLUSTER_JOB_DIR/bin/ssh
  # all from the first node, at once
  export OMPI_MCA_plm_rsh_no_tree_spawn=1 PRTE_MCA_plm_ssh_no_tree_spawn=1
  export OMPI_MCA_plm_rsh_num_concurrent=$NUM_NODES PRTE_MCA_plm_ssh_num_concurrent=$NUM_NODES
  # what Horovod's authors advise: MPI carries its control messages from several threads, NCCL carries the gradients
  export OMPI_MCA_pml=${OMPI_MCA_pml:-ob1} OMPI_MCA_btl=${OMPI_MCA_btl:-^openib}
  # as Amazon's images of EFA have it: what ranks share through files has failed on machines with several jobs
  export PMIX_MCA_gds=${PMIX_MCA_gds:-hash}
  ((NUM_NODES > 1)) || return 0
  # The cluster's network as CIDR: interfaces need not be called the same everywhere, and a container runtime gives every
  # node a bridge of one and the same address.
  local network
  network=$(ip -oneline -4 address show to "$MASTER_ADDR" | awk '{ print $4; exit }')
  export OMPI_MCA_btl_tcp_if_include=${OMPI_MCA_btl_tcp_if_include:-$network} OMPI_MCA_oob_tcp_if_include=$network
  export PRTE_MCA_prte_if_include=$network
}
