# Volumes of FSx for OpenZFS and ONTAP, which exist already and are mounted over NFS.

# mount_nfs MOUNT PATH
mount_nfs() {
    source_nfs "$1" "$2"
    mounted "$1" "$FS_TYPE" "$FS_SOURCE" "$FS_OPTIONS"
}

# source_nfs MOUNT PATH: sets what mount needs. Both serve NFS 4.0 to 4.2, of which nfs4 takes the newest that the server has; version
# 3 would need more ports. nconnect is AWS's advice for both ("Performance" in the OpenZFS and ONTAP guides); 16 is the most.
source_nfs() {
    # shellcheck disable=SC2034 # the caller and fail_mount_with_cause read them
    PORT=2049 VERSION='' FS_TYPE=nfs4 FS_SOURCE=$DNS_NAME:$2 FS_OPTIONS=noatime,hard,timeo=600,nconnect=16 FS_AT_BOOT=''
}
