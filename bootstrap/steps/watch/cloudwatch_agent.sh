# The CloudWatch agent ships logs and measures the machine. A cluster without it is a cluster all the same: what goes wrong
# here is said in the boot's log, and the boot goes on.
step_cloudwatch_agent() {
    if ! cloudwatch_agent; then
        say "WARNING: no CloudWatch agent: this machine ships no logs and no metrics (see above)"
    fi
}

# Its commands are chained: errexit does not hold where the caller asks for the outcome.
cloudwatch_agent() {
    local config=/opt/gpucluster/cloudwatch.json
    { install_cloudwatch_agent && node_program && put_agent_config "$config"; } || return
    if agent_is_up "$config"; then return; fi
    apply_agent_config "$config" || apply_without_efa "$config" || return
    mkdir -p "$STARTED" && touch "$STARTED/amazon-cloudwatch-agent"
}

# put_agent_config PATH [OPTION...]: options are those of agent_config.
put_agent_config() {
    local path=$1 text
    shift
    text=$(/opt/gpucluster/bin/node-program watch.agent_config "$ROLE" "$@") && put_file "$path" 0644 root:root <<<"$text"
}

# agent_is_up PATH: it runs, and was started after the last change of PATH.
agent_is_up() {
    systemctl is-active --quiet amazon-cloudwatch-agent && [ ! "$1" -nt "$STARTED/amazon-cloudwatch-agent" ]
}

# The agent keeps a translation of the file, which this makes anew before it starts the service.
apply_agent_config() {
    "$AGENT_CTL" -a fetch-config -m ec2 -c "file:$1" -s
}

# Agents older than 1.300068 (May 2026), which an image may have, know nothing of EFA.
apply_without_efa() {
    put_agent_config "$1" --without efa && apply_agent_config "$1"
}
