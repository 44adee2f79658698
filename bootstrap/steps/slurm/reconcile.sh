# Makes Slurm's view of the nodes and EC2's agree, for as long as the head runs.
step_reconcile() {
    node_program
    node_service reconcile power.reconcile "Keep Slurm nodes and EC2 instances in step"
}
