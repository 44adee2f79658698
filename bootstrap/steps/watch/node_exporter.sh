# node_exporter serves this node's samples to the cluster's Prometheus, and to the one of `scrape_from`. Root's port: gpucluster/ports.py.
step_node_exporter() {
    local unit=/etc/systemd/system/gpucluster-node-exporter.service
    if [ "$EXPORTS" = no ]; then
        service_down gpucluster-node-exporter
        return
    fi
    install_monitoring prometheus-node-exporter
    put_file "$unit" 0644 root:root <<EOF
[Unit]
Description=Serve this node's samples to Prometheus
StartLimitIntervalSec=0

[Service]
User=prometheus
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
NoNewPrivileges=true
ProtectHome=true
ProtectSystem=strict
MemoryMax=256M
Nice=10
Environment=GOMAXPROCS=1
ExecStart=/usr/bin/prometheus-node-exporter --web.listen-address=:$EXPORTER_PORT --web.disable-exporter-metrics --web.max-requests=4 \\
    --collector.disable-defaults --collector.meminfo --collector.diskstats --collector.netdev \\
    "--collector.netdev.device-exclude=^(lo|veth.*|docker.*|br-.*)\$\$" \\
    --collector.textfile --collector.textfile.directory=/run/gpucluster/samples
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
EOF
    service_up gpucluster-node-exporter "$unit"
}
