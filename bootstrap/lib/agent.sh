# The CloudWatch agent's package.
readonly AGENT_CTL=/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl

# From the bucket of this region, which a network without a route to the internet reaches through the S3 endpoint.
install_cloudwatch_agent() {
    local domain=amazonaws.com package
    if [ -x "$AGENT_CTL" ]; then return; fi
    if [[ $REGION == cn-* ]]; then domain=amazonaws.com.cn; fi
    package=$(mktemp --suffix=.deb) &&
        curl -sSf --connect-timeout 10 --retry 2 -m 120 -o "$package" \
            "https://amazoncloudwatch-agent-$REGION.s3.$REGION.$domain/ubuntu/amd64/latest/amazon-cloudwatch-agent.deb" &&
        apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$package" &&
        rm -f "$package"
}
