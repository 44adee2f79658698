#!/usr/bin/env bash
# BeeGFS 8 in memory, on this machine. usage: beegfs.sh COMMAND
#   install      installs the packages, the client's kernel module, and the configuration of all services
#   management   starts the management service, of an empty file system
#   server       starts the metadata and the storage server, with empty memory
#   client       mounts the file system
#   unmount      unmounts the file system
#   leave        unmounts the file system, stops all services, and frees the memory
#   list         prints a line for each registered service, with its number
# Environment: GENERATION: any word; management, server and client change nothing if they ran with the same word before.
# MANAGEMENT: the host of the management service. NUMBER: a server's number, 1 to 65535, unique. FOLDER: where the management
# service keeps its records.
set -euo pipefail

readonly REGION=us-east-1
readonly ZONE=gpucluster.internal
readonly SSM_PATH=/gpucluster/GpuCluster/
readonly BEEGFS_VERSION=8
readonly BEEGFS_REPOSITORY=8.3
readonly BEEGFS_MOUNT=/ram
readonly BEEGFS_PARAMETER=storage/ram
BEEGFS_ROLE=management
readonly BEEGFS_MANAGEMENT_PACKAGES=(beegfs-mgmtd libbeegfs-license beegfs-tools)
readonly BEEGFS_SERVER_PACKAGES=(beegfs-meta beegfs-storage)
readonly BEEGFS_CLIENT_PACKAGES=(beegfs-client)
readonly BEEGFS_CLIENT_SERVICES=(beegfs-client)
readonly BEEGFS_CLIENT_CONTROL=/opt/beegfs/sbin/beegfs-client
readonly BEEGFS_LIST_SERVERS=(beegfs node list --node-type=)
readonly BEEGFS_STORAGE_GIB=150 BEEGFS_STORAGE_INODES=9830400
readonly BEEGFS_METADATA_GIB=4 BEEGFS_METADATA_INODES=262144
ROLE=$(if [ "$(hostname)" = head ]; then echo head; else echo compute; fi)
GENERATION=${GENERATION:-1}
MANAGEMENT=${MANAGEMENT:-head.$ZONE}
NUMBER=${NUMBER:-}
# On the head node this folder is on the data volume, which outlives the head node.
FOLDER=${FOLDER:-$(if [ "$ROLE" = head ]; then echo /home/gpucluster/beegfs-management; else echo /var/lib/gpucluster/beegfs; fi)}
readonly ROLE GENERATION MANAGEMENT NUMBER FOLDER
BUNDLE=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly BUNDLE

for library in runner locks machine_environment files services aws_api parameters apt this_partition nvidia kernel beegfs_services; do
    source "$BUNDLE/lib/$library.sh"
done

# The caller reports the failure, so this prints only the reason.
report_failure() {
    local reason=${1#*: }
    echo "${reason% (log *}" >&2
}

machine_environment
export AWS_DEFAULT_REGION=$REGION
export AWS_METADATA_SERVICE_TIMEOUT=5 AWS_METADATA_SERVICE_NUM_ATTEMPTS=5

case ${1-} in
install)
    run_step beegfs_packages
    run_step beegfs_module
    run_step beegfs_files
    ;;
management)
    run_step beegfs_files
    run_step beegfs_management
    ;;
server)
    run_step beegfs_files
    run_step beegfs_server
    ;;
client)
    run_step beegfs_files
    run_step beegfs_client
    ;;
unmount) beegfs_unmount ;;
leave)
    beegfs_unmount
    beegfs_give_back
    beegfs_stop beegfs-mgmtd
    ;;
list) beegfs_list ;;
*)
    echo "usage: beegfs.sh install | management | server | client | unmount | leave | list" >&2
    exit 2
    ;;
esac
