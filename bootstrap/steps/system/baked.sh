# Says what the image brings. Nothing follows from it: each step looks for what it needs, and installs what is missing.
step_baked() {
    local baked=/etc/gpucluster/baked
    if [ -e "$baked" ]; then say "baked image: $(<"$baked")"; else say "this image is not baked: what it lacks is installed now"; fi
}
