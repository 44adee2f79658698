# Keeps Slurm's view of the nodes consistent with EC2's.
step_reconcile() {
    node_program
    node_service reconcile power.reconcile "Keep Slurm nodes and EC2 instances in step"
}
