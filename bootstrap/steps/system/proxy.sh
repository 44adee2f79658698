# The proxy of cluster.yaml, for logins, jobs, apt and the services that call AWS.
readonly ENVIRONMENT=/etc/environment APT_PROXY=/etc/apt/apt.conf.d/95gpucluster-proxy
readonly AGENT_PROXY=/etc/systemd/system/amazon-cloudwatch-agent.service.d/gpucluster-proxy.conf
readonly PROXY_BEGINS='# GpuCluster: proxy' PROXY_ENDS='# GpuCluster: end'

step_proxy() {
    local wanted=$BUNDLE/environment others
    if [ ! -s "$wanted" ] && ! grep -qsxF "$PROXY_BEGINS" "$ENVIRONMENT"; then return; fi
    touch "$ENVIRONMENT"
    others=$(sed "/^$PROXY_BEGINS\$/,/^$PROXY_ENDS\$/d" "$ENVIRONMENT")
    if [ ! -s "$wanted" ]; then
        put_file "$ENVIRONMENT" 0644 root:root <<<"$others"
        rm -f "$APT_PROXY" "$AGENT_PROXY"
        return
    fi
    put_file "$ENVIRONMENT" 0644 root:root <<EOF
$others
$PROXY_BEGINS
$(<"$wanted")
$PROXY_ENDS
EOF
    apt_proxy "$wanted" | put_file "$APT_PROXY" 0644 root:root
    # The agent is the only service that calls AWS without node-program, which reads /etc/environment.
    put_file "$AGENT_PROXY" 0644 root:root <<EOF
[Service]
EnvironmentFile=$ENVIRONMENT
EOF
}

# apt_proxy FILE: sudo drops the variables. man apt-transport-http.1: Acquire::http::Proxy::HOST "DIRECT".
apt_proxy() {
    local proxy names name scheme
    proxy=$(sed -n 's/^http_proxy=//p' "$1")
    IFS=, read -ra names < <(sed -n 's/^no_proxy=//p' "$1")
    for scheme in http https; do
        printf 'Acquire::%s::Proxy "%s";\n' "$scheme" "$proxy"
        for name in "${names[@]}"; do
            if [[ $name =~ ^[A-Za-z][A-Za-z0-9.-]*$ ]]; then printf 'Acquire::%s::Proxy::%s "DIRECT";\n' "$scheme" "$name"; fi
        done
    done
}
