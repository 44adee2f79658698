# The instance's own NVMe disks, striped, at /scratch; emptied between jobs. See gpucluster_node/scratch/disks.py.
step_scratch() {
    local unit=/etc/systemd/system/gpucluster-scratch.service gigabytes
    this_machine
    this_partition
    gigabytes=$NVME_GB
    if [ "$SCRATCH" = no ]; then gigabytes=0; fi
    node_program
    if [ "$gigabytes" -gt 0 ] && several_disks && ! command -v mdadm >/dev/null; then install_packages mdadm; fi
    scratch_unit "$gigabytes" | put_file "$unit" 0644 root:root
    service_up gpucluster-scratch "$unit"
    scratch_programs
    say "jobs find room at $(</etc/gpucluster/scratch): $(df --output=avail --block-size=GB "$(</etc/gpucluster/scratch)" | tail -n 1 | tr -d ' ') free"
}

several_disks() {
    local names=(/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_*)
    [ "$(readlink -f "${names[@]}" | sort -u | wc -l)" -gt 1 ]
}

# At each boot, and not by fstab: after a stop the disks are blank.
scratch_unit() {
    cat <<UNIT
[Unit]
Description=Make /scratch of the instance's own disks
Before=slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/opt/gpucluster/bin/node-program scratch.disks $1 $JOB_USER
TimeoutStartSec=300

[Install]
WantedBy=multi-user.target
UNIT
}

# Programs that Slurm runs around each job, and that jobs call.
scratch_programs() {
    put_program prolog.d/20-scratch
    put_program epilog.d/80-scratch
    put_program bin/scratch-cache
}
