# Installs what the image lacks, by the command that is needed: on a baked image nothing. An image is baked for all roles.
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
        # MXNet's wheel brings the other libraries that it needs
        grep -q 'libquadmath\.so\.0' <(ldconfig -p) || missing+=(libquadmath0)
    fi
    # Found and not imported, which takes a quarter of a second.
    python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("boto3") is None)' || missing+=(python3-boto3)
    if [ "${#missing[@]}" -gt 0 ]; then without_services install_packages "${missing[@]}"; fi
}

# without_services COMMAND...: packages that it installs start no services. Each is started by the step that has configured it;
# slurmd would look for a configuration until systemd gives up on it, and the boot would wait for that.
without_services() {
    local policy=${SERVICE_POLICY:-/usr/sbin/policy-rc.d} ours="# GpuCluster: not before it is configured"
    if [ -e "$policy" ] && ! grep -qxF "$ours" "$policy"; then
        "$@" # the image has a policy of its own
        return
    fi
    (
        trap 'rm -f "$policy"' EXIT # else a later `apt install` would start nothing either
        printf '#!/bin/sh\n%s\nexit 101\n' "$ours" >"$policy"
        chmod 0755 "$policy"
        "$@"
    )
}

# need COMMAND PACKAGE: notes the package where the command is missing.
need() {
    if ! PATH=$PATH:/opt/amazon/openmpi/bin command -v "$1" >/dev/null; then missing+=("$2"); fi
}

# A configuration file that the image brought stays; dpkg would ask.
install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    update_package_lists
    apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
        install -y --no-install-recommends "$@"
}

# apt waits for dpkg's lock, never for that of the lists, which a machine that has just booted may be updating itself. A repository
# of the image's that is broken, by an expired key for one, must not keep the others from being used.
update_package_lists() {
    local said attempt
    for attempt in {1..30}; do
        if said=$(apt-get -q update 2>&1); then return; fi
        if [[ $said != *"Could not get lock"* && $attempt -ge 3 ]]; then
            say "warning: not every package list could be updated: $(grep -m1 '^E:' <<<"$said" || true)"
            return
        fi
        sleep 10
    done
    fail "apt-get update: $(grep -m1 '^E:' <<<"$said" || true)"
}
