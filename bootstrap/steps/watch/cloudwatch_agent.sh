# The CloudWatch agent ships logs and measures the machine. A cluster works without it: errors here are printed to the boot's log,
# and the boot continues.
step_cloudwatch_agent() {
    if ! cloudwatch_agent; then
        say "WARNING: no CloudWatch agent: this machine ships no logs and no metrics (see above)"
    fi
}

# Its commands are chained, because errexit has no effect if the caller tests the result.
cloudwatch_agent() {
    local config=/opt/gpucluster/cloudwatch.json
    { install_cloudwatch_agent && node_program && put_agent_config "$config"; } || return
    if agent_is_up "$config"; then return; fi
    apply_agent_config "$config" || apply_without_efa "$config" || return
    mkdir -p "$STARTED" && touch "$STARTED/amazon-cloudwatch-agent"
}

# put_agent_config PATH [OPTION...]: options of agent_config.
put_agent_config() {
    local path=$1 text
    shift
    text=$(/opt/gpucluster/bin/node-program watch.agent_config "$ROLE" "$@") && put_file "$path" 0644 root:root <<<"$text"
}

# agent_is_up PATH: whether it runs, and was started after the last change of PATH.
agent_is_up() {
    systemctl is-active --quiet amazon-cloudwatch-agent && [ ! "$1" -nt "$STARTED/amazon-cloudwatch-agent" ]
}

# The agent keeps a translation of the file, which this updates before it starts the service.
apply_agent_config() {
    "$AGENT_CTL" -a fetch-config -m ec2 -c "file:$1" -s
}

# Agents before 1.300068 (May 2026), which an image may have, do not support EFA.
apply_without_efa() {
    put_agent_config "$1" --without efa && apply_agent_config "$1"
}
