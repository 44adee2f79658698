# Accounts of the users in cluster.yaml, with the same uid on every node. Running nodes read the head node's list before each job.
readonly USERS=/home/gpucluster/users

step_users() {
    put_program bin/accounts
    if [ "$ROLE" = compute ]; then
        put_program prolog.d/05-users
    fi
    if [ "$ROLE" = head ]; then list_users; fi
    /opt/gpucluster/bin/accounts "$ROLE"
}

# Nothing for a cluster that never had users; an empty list for one that has none left.
list_users() {
    local list=/dev/null program=/opt/gpucluster/bin/node-program
    if [ -e "$BUNDLE/users" ]; then list=$BUNDLE/users; fi
    if [ "$list" = /dev/null ] && [ ! -e "$USERS" ]; then return; fi
    # Nodes read the published list before each job.
    /opt/gpucluster/bin/accounts check "$list"
    put_file "$USERS" 0644 root:root <"$list"
    # Environments are built by root, for all users.
    put_file /etc/sudoers.d/gpucluster-users 0440 root:root <<EOF
%gpucluster ALL=(root) NOPASSWD: $program jobs.environments ensure *, $program jobs.environments list
EOF
}
