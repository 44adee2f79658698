# slurmctld.

wait_for_controller() {
    for _ in {1..60}; do
        if timeout 10 scontrol ping 2>/dev/null | grep -q 'is UP'; then return; fi
        sleep 0.5
    done
    fail "slurmctld does not answer: see /var/log/slurm/slurmctld.log"
}

# reconfigure: makes running nodes fetch new files. Slurm before 23.11.8 may lose a job that starts then: slurmctld may crash while a
# PrologSlurmctld runs (Slurm's commit a914847a5b), and is restarted; slurmd forgets that the job's prolog has run, so that the job's
# first step fails after a minute and the node is drained (efc6fcfb0d).
reconfigure() {
    wait_for_controller || return
    if dpkg --compare-versions "$(slurmctld -V | sed 's/.* //')" lt 23.11.8; then wait_for_started_jobs; fi
    timeout 60 scontrol reconfigure
}

# wait_for_started_jobs: until no job waits for its nodes or has run for less than a minute. Not for ever: some queues never rest.
wait_for_started_jobs() {
    local queue
    for _ in {1..60}; do
        queue=$(timeout 10 squeue --noheader --format='%T %M') || return 0
        if ! grep -qE '^(CONFIGURING .*|RUNNING 0:[0-5][0-9])$' <<<"$queue"; then return; fi
        sleep 5
    done
    say "warning: jobs still start after five minutes, and slurmctld reads its new files now"
}

# touch_log PATH: creates the file; slurmctld may write it.
touch_log() {
    if [ ! -e "$1" ]; then : >"$1"; fi
    put_mode "$1" 0664 root:slurm
}

# power_programs: what slurmctld calls. It runs as slurm, who may write into the folder of requests and nothing more: gpucluster-power
# reads them. The folder comes first, because Slurm may call a program at any moment, also right after a boot.
power_programs() {
    node_program
    put_file /etc/tmpfiles.d/gpucluster-power.conf 0644 root:root <<<'d /run/gpucluster/requests 0730 root slurm'
    put_directory /run/gpucluster/requests 0730 root:slurm
    put_program bin/power-request
    put_file /etc/tmpfiles.d/gpucluster-mail.conf 0644 root:root <<<'d /run/gpucluster/mail 0730 root slurm'
    put_directory /run/gpucluster/mail 0730 root:slurm
    put_program bin/mail-request
    put_program bin/resume
    put_program bin/suspend
    put_program bin/nodes-joined
    touch_log /var/log/gpucluster/power.log
}
