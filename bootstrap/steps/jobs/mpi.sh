# Finds Open MPI: the machine image's (EFA's, under /opt/amazon) or the distribution's.
step_mpi() {
    local version
    PATH=/opt/amazon/openmpi/bin:$PATH
    version=$(mpirun --version)
    say "${version%%$'\n'*} in $(command -v mpirun)"
}
