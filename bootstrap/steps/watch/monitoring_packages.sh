# Installs Prometheus's packages into an image; each node configures what it runs.
step_monitoring_packages() {
    install_monitoring prometheus prometheus-node-exporter
}
