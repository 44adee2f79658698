# The sampler: gpucluster_node/watch/sampler.py. On compute nodes the prolog and the epilog tell it which jobs they have.
step_samples() {
    node_program
    if [ "$ROLE" = compute ]; then
        metrics_of_jobs
        put_program bin/job-samples
        put_program prolog.d/22-samples
        put_program epilog.d/30-samples
    fi
    node_service samples watch.sampler "Sample this node and its jobs"
}

# Users write here, so it is a file system of its own: they cannot fill /run.
metrics_of_jobs() {
    local unit=/etc/systemd/system/run-gpucluster-metrics.mount
    put_file "$unit" 0644 root:root <<'EOF'
[Unit]
Description=Newest metrics of the jobs of this node

[Mount]
What=tmpfs
Where=/run/gpucluster/metrics
Type=tmpfs
Options=size=16m,nr_inodes=4k,mode=0755,nosuid,nodev,noexec

[Install]
WantedBy=multi-user.target
EOF
    service_up run-gpucluster-metrics.mount "$unit"
}
