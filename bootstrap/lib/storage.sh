# The cluster's file systems on FSx and EFS. Where they are only Parameter Store knows: the head node asks, and lays the answer
# on /home, where compute nodes read it.
readonly STORAGE=/home/gpucluster/storage.json

# storage_has TEXT: whether storage.json has it; before storage_mounts has run, too.
storage_has() {
    local file=$BUNDLE/storage.json
    if [ "$ROLE" = compute ]; then file=$STORAGE; fi
    grep -qsF -- "$1" "$file"
}

# open_to_everybody MOUNT DIRECTORIES: AWS makes them for root alone. As in /tmp, every account may write there and
# none may take away what is another's. What somebody has changed since stays.
open_to_everybody() {
    local directories directory
    IFS=, read -r -a directories <<<"$2"
    for directory in "${directories[@]}"; do
        directory=$1${directory%/}
        if [ -d "$directory" ] && [ "$(stat -c '%a %U' "$directory")" = "755 root" ]; then chmod 1777 "$directory"; fi
    done
}
