# Packages of Ubuntu, by apt.

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
