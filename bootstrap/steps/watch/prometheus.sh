# Prometheus, on the head node's loopback. Its samples are on the data volume, and bounded in days and in size.
step_prometheus() {
    local unit=/etc/systemd/system/gpucluster-prometheus.service config=/etc/gpucluster/prometheus.yml
    if [ "$PROMETHEUS" = off ]; then
        service_down gpucluster-prometheus
        service_down gpucluster-targets
        return
    fi
    install_monitoring prometheus
    node_service targets "watch.targets $EXPORTER_PORT" "Tell Prometheus which nodes run"
    put_directory "$DATA/prometheus" 0700 prometheus:prometheus
    # Another machine image may give the user another number.
    if [ -n "$(find "$DATA/prometheus" ! -user prometheus -print -quit)" ]; then chown -R prometheus:prometheus "$DATA/prometheus"; fi
    prometheus_configuration | put_file "$config" 0644 root:root
    prometheus_unit "$config" | put_file "$unit" 0644 root:root
    service_up gpucluster-prometheus "$unit" "$config"
}

# One node with eight GPUs has some 250 series. A job's user chooses names of metrics, so what a node may send is bounded.
prometheus_configuration() {
    cat <<'EOF'
global:
  scrape_interval: 10s
  scrape_timeout: 8s
scrape_configs:
  - job_name: nodes
    honor_labels: true # `job` is Slurm's
    sample_limit: 20000
    body_size_limit: 16MB
    file_sd_configs:
      - files: [/var/lib/gpucluster/prometheus-targets.json]
EOF
}

# prometheus_unit CONFIG: every user of the head node may ask it, so a query has limits.
prometheus_unit() {
    cat <<EOF
[Unit]
Description=Keep the samples of the cluster's nodes
After=gpucluster-home.service
Requires=gpucluster-home.service
RequiresMountsFor=$DATA
StartLimitIntervalSec=0

[Service]
User=prometheus
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
NoNewPrivileges=true
ProtectSystem=full
MemoryMax=25%
Nice=10
ExecStart=/usr/bin/prometheus --config.file=$1 --web.listen-address=127.0.0.1:$PROMETHEUS_PORT \\
    --storage.tsdb.path=$DATA/prometheus --storage.tsdb.retention.time=$SAMPLES_DAYS --storage.tsdb.retention.size=$SAMPLES_SIZE \\
    --query.timeout=20s --query.max-concurrency=4 --query.max-samples=10000000
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
EOF
}
