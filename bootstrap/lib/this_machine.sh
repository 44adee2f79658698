# The bundle's data of this machine's instance type, and checks of the software that it needs.

# this_machine: sources machines/TYPE.sh. Each step calls it first, because each has its own shell.
# shellcheck disable=SC2034 # the steps read them
this_machine() {
    INSTANCE_TYPE=$(imds meta-data/instance-type)
    GPUS=0 NVME_GB=0 EFA_INTERFACES=0 NVSWITCH=no NVLSM=no GDRCOPY=no LUSTRE_OVER_EFA=no KERNEL_MODULE=open
    DRIVER_VERSIONS=() CUDA_VERSIONS=() NCCL_VERSIONS=() GDRCOPY_VERSIONS=() DCGM_VERSIONS=()
    EFA_VERSIONS=() OFI_NCCL_VERSIONS=() ENROOT_VERSIONS=() PYXIS_VERSIONS=() JOB_ENVIRONMENT=()
    if [ ! -e "$BUNDLE/machines/$INSTANCE_TYPE.sh" ]; then
        fail "the cluster file has no instance type $INSTANCE_TYPE: the software that it needs is unknown"
    fi
    # shellcheck source=/dev/null
    source "$BUNDLE/machines/$INSTANCE_TYPE.sh"
}

# check_version WHAT FOUND LEAST BELOW …: prints the version; fails if it suits none of the ranges of this machine.
check_version() {
    local what=$1 found=$2 least=$3 below=$4 allowed
    allowed="$least or newer${below:+, and older than $below}"
    if [ -z "$found" ]; then fail "$what: not found on this image, expected $allowed"; fi
    if ! at_least "$found" "$least" || { [ -n "$below" ] && at_least "$found" "$below"; }; then
        fail "$what $found does not suit $INSTANCE_TYPE, expected $allowed: choose another image in the cluster file"
    fi
    say "$what $found"
}

# at_least VERSION LEAST
at_least() {
    printf '%s\n%s\n' "$2" "$1" | sort --version-sort --check=quiet
}

# library_version NAME FOLDER...: the version of the first lib<NAME>.so.<version> in these folders; empty if there is none.
library_version() {
    local name=$1 folder path
    shift
    for folder; do
        for path in "$folder/lib$name.so."*.*; do
            if [ -e "$path" ]; then
                echo "${path##*"lib$name.so."}"
                return
            fi
        done
    done
}
