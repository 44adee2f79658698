# Publishes the head node's host key in SSM, so that users get it from there instead of accepting an unknown key.
step_host_key() {
    local name=${SSM_PATH}host-key key published
    key=$(awk '{ print $1, $2 }' /etc/ssh/ssh_host_ed25519_key.pub)
    published=$(aws_api parameter "$name")
    if [ "$published" != "$key" ]; then aws_api put-parameter "$name" "$key"; fi
}
