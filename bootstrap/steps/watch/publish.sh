# Publishes Slurm's state to CloudWatch each minute.
step_publish() {
    node_program
    node_service publish watch.publish "Publish the cluster's state to CloudWatch"
}
