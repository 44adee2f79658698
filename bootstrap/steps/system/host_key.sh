# The head's host key goes to SSM, where those who log in learn it instead of accepting what they are shown.
step_host_key() {
    local name=${SSM_PATH}host-key key published
    key=$(awk '{ print $1, $2 }' /etc/ssh/ssh_host_ed25519_key.pub)
    published=$(aws_api parameter "$name")
    if [ "$published" != "$key" ]; then aws_api put-parameter "$name" "$key"; fi
}
