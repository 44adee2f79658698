# slurmctld.

wait_for_controller() {
    for _ in {1..60}; do
        if timeout 10 scontrol ping 2>/dev/null | grep -q 'is UP'; then return; fi
        sleep 0.5
    done
    fail "slurmctld does not answer: see /var/log/slurm/slurmctld.log"
}

# reconfigure: slurmctld before 23.11.8 may crash at it while a PrologSlurmctld runs (Slurm's commit a914847a5b), and is restarted.
reconfigure() {
    wait_for_controller && timeout 60 scontrol reconfigure
}

# touch_log PATH: creates the file; slurmctld may write it.
touch_log() {
    if [ ! -e "$1" ]; then : >"$1"; fi
    put_mode "$1" 0664 root:slurm
}

# slurmctld runs as slurm, whom the metadata service refuses, so its power programs use sudo. The rule comes first, and also fits the
# programs of earlier bundles, because Slurm may call one at any moment.
power_programs() {
    local bin=/opt/gpucluster/bin
    node_program
    put_file /etc/sudoers.d/gpucluster 0440 root:root <<EOF
slurm ALL=(root) NOPASSWD:SETENV: $bin/node-program power.resume*, $bin/node-program power.suspend *
EOF
    put_program bin/resume
    put_program bin/suspend
    put_program bin/nodes-joined
    quicken_node_programs
    touch_log /var/log/gpucluster/power.log
}
