# Prints what the image has. It is only information: each step checks for itself and installs what is missing.
step_baked() {
    local baked=/etc/gpucluster/baked
    if [ -e "$baked" ]; then say "baked image: $(<"$baked")"; else say "this image is not baked: missing software is installed now"; fi
}
