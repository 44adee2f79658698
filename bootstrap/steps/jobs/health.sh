# Slurm checks the node before each job and after it: gpucluster_node/health/look.py. The file says what the node should have.
step_health() {
    local efa=0 nvlink=false
    this_machine
    this_partition
    if [ "$EFA" = yes ]; then efa=$EFA_INTERFACES; fi
    if [ "$NVSWITCH" = yes ]; then nvlink=true; fi
    put_file /var/lib/gpucluster/health.json 0644 root:root <<EOF
{"gpus": $GPUS, "efa_interfaces": $efa, "nvlink": $nvlink, "mounts": ["/home"]}
EOF
    node_program
    put_program prolog.d/15-health
    put_program epilog.d/84-preflight
    put_program epilog.d/85-health
    if [ "$GPUS" -gt 0 ]; then node_service health-watch health.kernel_log "Watch the kernel log for broken GPUs"; fi
}
