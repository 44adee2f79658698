# Slurm's commands read slurm.conf with the controller's parser and end if it finds an error. The file has lines of the user's own, and
# a controller that does not start again would end the cluster. sacctmgr reads the new file in the next step. The file that is tried
# is in the same folder, because it includes another.
step_slurm_conf() {
    local new=/etc/slurm/slurm.conf.new said
    image_file image.conf
    cp "$BUNDLE/slurm/slurm.conf" "$new"
    if ! said=$(SLURM_CONF=$new scontrol show hostnames head 2>&1); then
        rm "$new"
        fail "Slurm does not take the new slurm.conf, and the old one stays: ${said//$'\n'/; }"
    fi
    rm "$new"
}
