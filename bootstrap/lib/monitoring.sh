# Samples of nodes and jobs, and Prometheus's packages. A node works without them: then these files have the reason.
# shellcheck disable=SC2034 # role scripts read them
readonly SAMPLES_MISSING=/var/lib/gpucluster/samples.missing
# shellcheck disable=SC2034
readonly EXPORTER_MISSING=/var/lib/gpucluster/node-exporter.missing
# shellcheck disable=SC2034
readonly PROMETHEUS_MISSING=/var/lib/gpucluster/prometheus.missing

# install_monitoring PACKAGE...: each has a program and a unit of its name. Our units have the same programs with other options; the
# package's would listen on all addresses, on ports that a user could take.
install_monitoring() {
    local package missing=()
    for package in "$@"; do
        ln -sfn /dev/null "/etc/systemd/system/$package.service"
        need "$package" "$package"
    done
    if [ "${#missing[@]}" -gt 0 ]; then without_services install_packages "${missing[@]}"; fi
}
