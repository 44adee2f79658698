# Installs only the CloudWatch agent's package; each node configures what it ships. An image without the agent is still usable.
step_agent_package() {
    install_cloudwatch_agent || say "WARNING: no CloudWatch agent in this image (see above)"
}
