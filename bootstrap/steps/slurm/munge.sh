# Every node has the same munge key: the bytes of a secret that only node roles may read.
step_munge() {
    local arn key
    arn=$(parameter head munge_secret_arn)
    key=$(aws_api secret "$arn")
    printf %s "$key" | put_file /etc/munge/munge.key 0400 munge:munge
    starts_again munge
    service_up munge /etc/munge/munge.key /etc/systemd/system/munge.service.d/gpucluster-restart.conf
}
