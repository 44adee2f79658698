# A new bundle changes the head node's programs at once, because Slurm calls modules of the current bundle.
step_programs() {
    # At the first boot no Slurm calls them yet: step slurm_head installs them.
    if [ ! -e /opt/gpucluster/bin/resume ]; then return; fi
    power_programs
    if [ -e "$BUNDLE/slurm/burst_buffer.lua" ]; then put_staging; fi
}
