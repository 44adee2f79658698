# Launches and terminates the instances of Slurm's nodes, and keeps the two consistent.
step_power() {
    node_program
    end_older_programs
    put_file /etc/systemd/system/gpucluster-power.service.d/gpucluster-watchdog.conf 0644 root:root <<EOF
[Service]
# It tells systemd that it works, several times a second (gpucluster_node/power/daemon.py).
WatchdogSec=60
EOF
    node_service power power.daemon "Launch and terminate the instances of Slurm's nodes"
}

# end_older_programs: of versions whose launches were programs of slurmctld. The daemon goes on with their launches.
end_older_programs() {
    if [ ! -e /etc/systemd/system/gpucluster-reconcile.service ]; then return; fi
    service_down gpucluster-reconcile
    pkill --full 'gpucluster_node\.power\.(resume|suspend)' || true
    rm -rf /etc/systemd/system/gpucluster-reconcile.service /etc/sudoers.d/gpucluster \
        /run/gpucluster/{offers,limits,shortage,launching/locks}
}
