# With a new bundle the head's programs change at once: what Slurm calls names modules of the bundle that is in use.
step_programs() {
    # At its first boot a machine has no Slurm yet that would call them: step slurm_head lays them down.
    if [ ! -e /opt/gpucluster/bin/resume ]; then return; fi
    power_programs
    if [ -e "$BUNDLE/slurm/burst_buffer.lua" ]; then put_staging; fi
}
