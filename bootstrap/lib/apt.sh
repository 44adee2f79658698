# Packages of Ubuntu, by apt.

# without_services COMMAND...: packages that it installs do not start their services. The step that configures a service starts
# it. Otherwise slurmd would look for a configuration until systemd gives up, and the boot would wait for that.
without_services() {
    local policy=${SERVICE_POLICY:-/usr/sbin/policy-rc.d} ours="# GpuCluster: not before it is configured"
    if [ -e "$policy" ] && ! grep -qxF "$ours" "$policy"; then
        "$@" # the image has its own policy
        return
    fi
    (
        trap 'rm -f "$policy"' EXIT # otherwise a later `apt install` would start nothing either
        printf '#!/bin/sh\n%s\nexit 101\n' "$ours" >"$policy"
        chmod 0755 "$policy"
        "$@"
    )
}

# need COMMAND PACKAGE: adds the package to the list if the command is missing.
need() {
    if ! PATH=$PATH:/opt/amazon/openmpi/bin command -v "$1" >/dev/null; then missing+=("$2"); fi
}

# Keeps a configuration file of the image; dpkg would ask.
install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    update_package_lists
    apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
        install -y --no-install-recommends "$@"
}

# apt waits for dpkg's lock but not for that of the lists, which a machine that has just booted may be updating. A broken
# repository of the image, for example with an expired key, must not block the others.
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
