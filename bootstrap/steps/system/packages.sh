# Installs what the image lacks, by the command that is needed: nothing on a baked image. An image is baked for all roles.
step_packages() {
    local missing=()
    need munged munge
    need nft nftables
    need mount.nfs4 nfs-common
    need scontrol slurm-client
    need mpirun openmpi-bin
    if [ "$ROLE" != compute ]; then
        need slurmctld slurmctld
        need exportfs nfs-kernel-server
        need virtualenv virtualenv
        if [ "$ACCOUNTING" = local ]; then need mariadbd mariadb-server; fi
        if [ "$ACCOUNTING" != off ]; then need slurmdbd slurmdbd; fi
    fi
    if [ "$ROLE" != head ]; then
        need slurmd slurmd
        # MXNet's wheel includes the other libraries that it needs
        grep -q 'libquadmath\.so\.0' <(ldconfig -p) || missing+=(libquadmath0)
    fi
    if [ "$ROLE" = image ]; then need mdadm mdadm; fi # for nodes with several disks: without internet, they cannot install it
    # Only looks for the module: importing it takes a quarter of a second.
    python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("boto3") is None)' || missing+=(python3-boto3)
    if [ "${#missing[@]}" -gt 0 ]; then without_services install_packages "${missing[@]}"; fi
    if [ "$ROLE" != compute ]; then suitable_slurm slurmctld; fi
    if [ "$ROLE" != head ]; then suitable_slurm slurmd; fi
}

# suitable_slurm DAEMON: older ones do not know our slurm.conf or cgroup v2, and a head node takes no nodes that are two releases older.
suitable_slurm() {
    local found
    found=$("$1" -V | sed 's/.* //')
    if dpkg --compare-versions "$found" lt 23.11; then
        fail "this image ($(release_name)) has Slurm $found, and 23.11 is needed: choose an image of Ubuntu 24.04"
    fi
}

# Prints `Ubuntu 22.04.5 LTS`.
release_name() {
    # shellcheck source=/dev/null
    (source "${OS_RELEASE:-/etc/os-release}" && echo "${PRETTY_NAME:-an unknown system}")
}
