# Variables for NCCL and libfabric on this instance type. Ranks read them (gpucluster_job/ranks/identity.py); a job's own value
# takes precedence.
step_job_environment() {
    local pair
    this_machine
    for pair in "${JOB_ENVIRONMENT[@]}"; do
        printf '[ -v %s ] || export %s=%q\n' "${pair%%=*}" "${pair%%=*}" "${pair#*=}"
    done | put_file /etc/gpucluster/job-environment.sh 0644 root:root
}
