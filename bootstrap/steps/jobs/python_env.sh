# The head node writes the recipes of the jobs' Python environments to /home. Slurm jobs build them, on a node with the hardware
# that they are for: environments/environment.sh.
step_python_env() {
    local path lock name
    node_program
    put_directory "$ENVIRONMENTS/.log" 0755 root:root
    for path in "$BUNDLE"/environments/* "$BUNDLE"/lib/{runner,apt,environments,machine_environment}.sh \
        "$BUNDLE"/gpucluster_node/{__init__,aws,locations,jobs/__init__,jobs/environment_cache}.py; do
        put_file "$ENVIRONMENTS/.recipe/${path#"$BUNDLE"/}" 0644 root:root <"$path"
    done
    for lock in "$BUNDLE"/environments/*.txt; do
        name=$(basename "$lock" .txt)
        wanted "$name" "$name-$(environment_key "$lock")"
    done
}

# wanted NAME FOLDER: the link NAME leads jobs to the newest complete environment; .wanted/NAME leads to the one that the bundle
# needs.
wanted() {
    mkdir -p "$ENVIRONMENTS/.wanted"
    ln -sfn "../$2" "$ENVIRONMENTS/.wanted/$1"
    if [ -e "$ENVIRONMENTS/$2/complete" ]; then ln -sfn "$2" "$ENVIRONMENTS/$1"; fi
}

# environment_key LOCK: a hash over everything that determines the result: the packages, the system, and whether there are GPUs.
environment_key() {
    local gpus
    gpus=$(gpus_of "$(basename "$1" .txt)" "${1%/*}")
    {
        cat "$1"
        sed -nE 's/^(ID|VERSION_ID)=//p' /etc/os-release
        echo "$(uname -m) gpus=$gpus"
    } | sha256sum | cut -c1-16
}
