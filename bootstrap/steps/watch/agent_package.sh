# The CloudWatch agent's package alone: what it ships is the node's own affair. An image without it is one all the same.
step_agent_package() {
    install_cloudwatch_agent || say "WARNING: no CloudWatch agent in this image (see above)"
}
