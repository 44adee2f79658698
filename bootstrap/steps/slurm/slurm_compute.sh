# slurmd, configless: every file comes from the head node.
step_slurm_compute() {
    local folder=/etc/systemd/system/slurmd.service.d
    put_directory /var/log/slurm 0755 slurm:slurm
    slurmd_drop_in | put_file "$folder/gpucluster.conf" 0644 root:root
    slurm_limits slurmd
    starts_again slurmd
    service_up slurmd "$folder"/gpucluster{,-limits,-restart}.conf /etc/munge/munge.key
}

# Keeps the packaged command line, whatever this version has, and adds our options.
slurmd_drop_in() {
    local unit command
    unit=$(systemctl show --property=FragmentPath --value slurmd)
    command=$(sed -n 's/^ExecStart=//p' "$unit")
    cat <<EOF
[Unit]
ConditionPathExists=
After=munge.service home.mount nvidia-persistenced.service nvidia-fabricmanager.service gpucluster-scratch.service

[Service]
# It creates the device files that gres.conf names; before the first use of a GPU they may not exist.
ExecStartPre=-/usr/bin/nvidia-smi --list-gpus
ExecStart=
ExecStart=$command --conf-server head.$ZONE:$SLURMCTLD_PORT -N $(hostname)$(slurmd_instance)
Delegate=yes
RuntimeDirectory=slurm
EOF
}

# So that `scontrol show node` shows the instance, if this slurmd supports it (since 23.11).
slurmd_instance() {
    if [[ $(slurmd -h 2>&1) != *--instance-id* ]]; then return; fi
    printf ' --instance-id=%s --instance-type=%s' "$(imds meta-data/instance-id)" "$(imds meta-data/instance-type)"
}
