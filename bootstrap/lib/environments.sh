# The jobs' Python environments on /home.
# shellcheck disable=SC2034 # steps read it
readonly ENVIRONMENTS=/home/gpucluster/envs

# gpus_of NAME FOLDER: 1 if the environment is built on nodes with GPUs, else 0; nothing if this cluster has no such environment.
gpus_of() {
    awk -v name="$1" '$1 == name { print $3 }' "$2/partitions"
}
