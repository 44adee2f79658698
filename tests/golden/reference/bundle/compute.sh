#!/usr/bin/env bash
# Makes this machine a compute node of GpuCluster, for training or as a parameter server. Running it twice changes nothing.
set -euo pipefail

readonly ROLE=compute
readonly CONTAINERS=no
BUNDLE=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly BUNDLE
source "$BUNDLE/cluster.sh"

for library in runner locks machine_environment files services firewall imds aws_api parameters node_program apt nvidia \
    this_machine kernel mounts lustre storage slurm_files this_partition agent monitoring user_scripts; do
    source "$BUNDLE/lib/$library.sh"
done
source "$BUNDLE/steps/storage/efs.sh"

report_failure() { tag_failure "$1"; }
machine_environment
export AWS_DEFAULT_REGION=$REGION
export HOME=/root # cloud-init does not set it
# The default, one second and one try, is too short on a busy booting machine.
export AWS_METADATA_SERVICE_TIMEOUT=5 AWS_METADATA_SERVICE_NUM_ATTEMPTS=5

# `compute.sh storage`: mounts file systems that the head node has found since this machine booted. Slurm's prolog calls it.
if [ "${1:-}" = storage ]; then
    report_failure() { scontrol update nodename="$(hostname)" state=power_down_asap reason="health: storage: $1"; }
    one_at_a_time
    for storage_step in lustre_client lustre_efa storage_mounts; do run_step "$storage_step"; done
    exit
fi
# `compute.sh job_lustre NAME`: mounts a file system that was created for jobs. The prolog of a job that uses it calls it.
if [ "${1:-}" = job_lustre ]; then
    report_failure() { scontrol update nodename="$(hostname)" state=drain reason="$1"; }
    one_at_a_time
    JOB_LUSTRE_NAME=$2 JOB_LUSTRE_AT=''
    run_step job_lustre_mount
    exit
fi
one_at_a_time
run_step baked
run_step proxy
machine_environment
run_step apt_timers
run_step name
run_step dns
user_scripts before
run_step packages
run_step imds_guard
run_step nvidia_driver
run_step fabric_manager
run_step cuda
run_step nccl
run_step gdrcopy
run_step efa
run_step dcgm
run_step limits
run_step log_rotation
run_step job_environment
run_step home_mount
# Before users can log in, and take its port.
run_step job_credentials
run_step job_firewall
run_step users
run_step follow_head
run_step munge
run_step ssh_trust
run_step mpi
run_step lustre_client
run_step lustre_efa
run_step storage_mounts
run_step beegfs
run_step job_ram
run_step scratch
run_step container_runtime
run_step job_lustre
run_step job_hooks
run_step health
try_step samples "$SAMPLES_MISSING"
# Before Slurm starts jobs here.
user_scripts after
run_step slurm_compute
run_step spot_notice
run_step cloudwatch_agent
try_step node_exporter "$EXPORTER_MISSING"
