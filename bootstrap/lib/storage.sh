# The cluster's file systems on FSx and EFS. Only Parameter Store knows their addresses: the head node asks it, and writes the
# answer to /home, where compute nodes read it.
readonly STORAGE=/home/gpucluster/storage.json

# storage_has TEXT: whether storage.json contains it, even before storage_mounts has run.
storage_has() {
    local file=$BUNDLE/storage.json
    if [ "$ROLE" = compute ]; then file=$STORAGE; fi
    grep -qsF -- "$1" "$file"
}

# open_to_everybody MOUNT DIRECTORIES: AWS creates them for root only. As in /tmp, every account may write there and none may
# remove another's files. Later changes by users stay. `-`: none, for a file system that is not the cluster's.
open_to_everybody() {
    local directories directory
    if [ "$2" = - ]; then return; fi
    IFS=, read -r -a directories <<<"$2"
    for directory in "${directories[@]}"; do
        directory=$1${directory%/}
        if [ -d "$directory" ] && [ "$(stat -c '%a %U' "$directory")" = "755 root" ]; then chmod 1777 "$directory"; fi
    done
}
