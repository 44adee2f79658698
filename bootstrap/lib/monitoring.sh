# Samples of nodes and jobs, and Prometheus's packages. A node works without them: then these files have the reason.
# shellcheck disable=SC2034 # role scripts read them
readonly SAMPLES_MISSING=/var/lib/gpucluster/samples.missing
# shellcheck disable=SC2034
readonly EXPORTER_MISSING=/var/lib/gpucluster/node-exporter.missing
# shellcheck disable=SC2034
readonly PROMETHEUS_MISSING=/var/lib/gpucluster/prometheus.missing

# install_monitoring PACKAGE...: each has a program and a unit of its name. Our units have the same programs with other options; the
# package's would listen on all addresses, on ports that a user could take. An image that has the package keeps its unit as it is, and so
# does one whose administrator wrote a unit of that name.
install_monitoring() {
    local package unit missing=()
    for package in "$@"; do need "/usr/bin/$package" "$package"; done
    if [ "${#missing[@]}" -eq 0 ]; then return; fi
    for package in "${missing[@]}"; do
        unit=/etc/systemd/system/$package.service
        if [ ! -e "$unit" ] && [ ! -L "$unit" ]; then ln -s /dev/null "$unit"; fi
    done
    without_services in_short install_packages "${missing[@]}"
}

# in_short COMMAND...: apt does not try for long, except for an image. The machine is in use already, and a prolog may wait for this run's
# lock. Without a route to the internet, apt 2.6 updates its lists for 38 s, and for 12 s with these settings (apt-transport-http(1)).
in_short() {
    if [ "$ROLE" = image ]; then
        "$@"
        return
    fi
    put_file /etc/gpucluster/apt-in-short.conf 0644 root:root <<'EOF'
Acquire::Retries "1";
Acquire::http::Timeout "10";
Acquire::https::Timeout "10";
EOF
    APT_CONFIG=/etc/gpucluster/apt-in-short.conf "$@"
}
