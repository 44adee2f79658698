#!/usr/bin/env bash
# Makes this machine the head node of GpuCluster. Runs at boot and with each new bundle; running it twice changes nothing.
set -euo pipefail

readonly ROLE=head
# The step volume waits up to 1,200 s for the old head node and for the disk. CloudFormation waits 1,800 s.
readonly STEP_LIMIT_S=1500
# Another run may wait in that step.
readonly LOCK_LIMIT_S=3200
readonly BEEGFS_ROLE=none
readonly VOLUME_GIB=200
readonly VOLUME=/home
readonly DATA=/home/gpucluster
readonly PROMETHEUS=on
readonly PROMETHEUS_PORT=301
readonly SAMPLES_DAYS=15d
readonly SAMPLES_SIZE=10240MB
readonly PARTITIONS=(train small ps)
BUNDLE=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly BUNDLE
source "$BUNDLE/cluster.sh"

for library in runner locks machine_environment files services firewall imds aws_api parameters wait_condition node_program apt \
    nvidia kernel mounts lustre storage environments slurm_files controller staging data_volume nfs_server \
    database this_partition agent monitoring user_scripts; do
    source "$BUNDLE/lib/$library.sh"
done
source "$BUNDLE/steps/storage/efs.sh"

report_failure() { signal FAILURE "$1"; }
machine_environment
export AWS_DEFAULT_REGION=$REGION
export HOME=/root # cloud-init does not set it
# The default, one second and one try, is too short on a busy booting machine.
export AWS_METADATA_SERVICE_TIMEOUT=5 AWS_METADATA_SERVICE_NUM_ATTEMPTS=5

# `head.sh job_lustre NAME MOUNT`: mounts a file system that was created for jobs. The caller reports a failure.
if [ "${1:-}" = job_lustre ]; then
    report_failure() { true; }
    one_at_a_time
    JOB_LUSTRE_NAME=$2 JOB_LUSTRE_AT=$3
    run_step job_lustre_mount
    exit
fi
one_at_a_time
# Before all steps that take long or may fail, because Slurm starts nodes meanwhile.
run_step programs
run_step baked
run_step proxy
machine_environment
run_step apt_timers
run_step name
run_step dns
user_scripts before
run_step packages
run_step imds_guard
run_step limits
run_step log_rotation
run_step volume
run_step home_mount
run_step home_export
# Before users can log in, and take its port.
run_step job_credentials
run_step job_firewall
run_step users
run_step munge
run_step mariadb
run_step renamed
run_step slurmdbd
run_step ssh_trust
run_step host_key
run_step mpi
# Without a Lustre client for its kernel the head node still runs Slurm, and the deployment does not roll back.
try_step lustre_client "$LUSTRE_MISSING"
run_step storage_mounts
run_step python_env
run_step slurm_conf
run_step accounting
run_step slurm_head
run_step user_limits
run_step power
run_step job_lustre
run_step beegfs
run_step update
run_step release
run_step publish
run_step mail
user_scripts after
run_step ready
run_step signal
run_step cloudwatch_agent
# A cluster works without samples. Their packages come last: without internet, an image that lacks them is tried for minutes.
try_step samples "$SAMPLES_MISSING"
try_step node_exporter "$EXPORTER_MISSING"
try_step prometheus "$PROMETHEUS_MISSING"
