# Tells users of their jobs' starts and ends, as Slurm says them (MailProg in slurm.conf).
step_mail() {
    node_program
    node_service mail mail.daemon "Send notices of jobs"
}
