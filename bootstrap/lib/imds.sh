# imds PATH: a value of the instance metadata service, e.g. `imds meta-data/instance-id`.
imds() {
    local url=http://169.254.169.254/latest token
    token=$(curl -sSf -m 5 --retry 5 --retry-all-errors -X PUT \
        -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$url/api/token")
    curl -sSf -m 5 --retry 3 -H "X-aws-ec2-metadata-token: $token" "$url/$1"
}

# imds_interface KEY: a value of the primary network interface, e.g. `imds_interface vpc-ipv4-cidr-block`.
imds_interface() {
    imds "meta-data/network/interfaces/macs/$(imds meta-data/mac)/$1"
}
