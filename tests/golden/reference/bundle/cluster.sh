# shellcheck shell=sh disable=SC2034
# Settings of every machine of GpuCluster. Role scripts source it, and programs that run after the boot.
readonly CLUSTER=GpuCluster
readonly REGION=us-east-1
readonly ZONE=gpucluster.internal
readonly SSM_PATH=/gpucluster/GpuCluster/
readonly JOB_USER=ubuntu
readonly ACCOUNTING=local
readonly HOME_ON=head-nfs
readonly NFS_PORT=296
readonly SLURMCTLD_PORT=297
readonly EXPORTER_PORT=300
readonly EXPORTS=yes
readonly JOB_CREDENTIALS=http://127.0.0.1:9911/credentials
