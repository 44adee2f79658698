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
}
