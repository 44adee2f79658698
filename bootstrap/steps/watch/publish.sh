# Tells CloudWatch each minute what Slurm knows.
step_publish() {
    node_program
    node_service publish watch.publish "Publish the cluster's state to CloudWatch"
}
