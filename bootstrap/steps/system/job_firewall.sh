# The programs of a job accept every connection: PyTorch, Gloo, MPI and gRPC ask for no secret. So a user's processes reach
# other nodes' ports, and on a compute node this node's, only where the user has a job. Root, the administrator and the system's
# accounts reach everything. Nobody but root leaves a machine without passing these rules, so that the other end needs none.
#
# On every cluster: `up` may add users while nodes run. Before the step that adds users, because a connection that is open stays open.
step_job_firewall() {
    local admin subnet
    admin=$(id -u "$JOB_USER")
    subnet=$(imds_interface subnet-ipv4-cidr-block)
    no_kernel_clients
    job_firewall_rules "$ROLE" "$admin" "$subnet" | load_at_boot job-firewall "Keep users away from the ports of others' jobs"
    if [ "$ROLE" = compute ]; then
        put_program bin/job-firewall
        put_program prolog.d/06-firewall
        put_program epilog.d/40-firewall
        job_firewall_again
    fi
}

# Any user may open a socket of these families, the kernel loads their modules for it, and they connect by a socket of the kernel's own,
# which has no uid: smc_create and smc_connect in net/smc/af_smc.c, nft_meta_get_eval_skugid in net/netfilter/nft_meta.c. No
# program of ours has one.
no_kernel_clients() {
    local module
    for module in smc rxrpc rds tipc; do echo "install $module /bin/false"; done | put_file /etc/modprobe.d/gpucluster-firewall.conf 0644 root:root
}

# Fills the sets each minute.
job_firewall_again() {
    local unit=/etc/systemd/system/gpucluster-job-nodes.service program=/opt/gpucluster/bin/job-firewall
    put_file "$unit" 0644 root:root <<EOF
[Unit]
Description=Follow the nodes of the jobs whose ports are open

[Service]
ExecStart=/bin/sh -c 'while sleep 60; do $program again; done'
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
EOF
    service_up gpucluster-job-nodes "$unit"
}

# job_firewall_rules head|compute ADMINISTRATOR SUBNET: all nodes are in one subnet. People have the uids 1000 to 59999 (Debian policy, 9.2.2); from 65536 on, useradd gives them further ones for user
# namespaces (subuid(5)). Kernel sockets, such as those of NFS and Lustre, have no uid, and match nothing.
#
# Only the first packet of a TCP connection decides, so that no connection has to be tracked, and a server may answer anybody. On a
# compute node only a server of a user who has a job there: anybody else who listens on the port of a job, before its program does,
# would get what the job's other ranks send. A server whose queue is full answers with SYN cookies, which have no socket and so no uid
# (tcp_make_synack in net/ipv4/tcp_output.c): nobody gets these. No job runs on the head node, and users' own programs listen on localhost there
# (gpucluster forward).
# Ports below 1024 belong to root's services, Slurm's with them (gpucluster/ports.py), and 9911 has the jobs' credentials. On the head node, srun
# listens on the ports of SrunPortRange, where slurmstepd may answer it with the user's uid (_drop_privileges in Slurm's mgr.c).
# sshd has places for so many connections that have not logged in (limits.sh), whose users it does not know. So each user opens 40 at
# once to a machine, then one in a second, and sshd closes those that have not logged in after 30 s. Over loopback, every address
# of 127.0.0.0/8 is the same machine. A user's further uids open none: there are 65536 of them.
# A node needs no IPv6: its name leads to an IPv4 address.
#
# An NFS server believes the uid that its client names (AUTH_SYS: RFC 5531, appendix A). The kernel's client names the right one, and a
# user's own client any, root's too. The head node's server reads files only for ports that a user cannot have (exports(5): secure), but its
# sessions and connections are anybody's (svc_check_conn_limits), and EFS answers all. So no user reaches an NFS server, or this machine's tunnels to EFS; nor a server of Lustre (port 988), whose protocol is the same in this.
# Nor does a user reach node_exporter, which has what other users' jobs report: Prometheus asks as a user of the system.
job_firewall_rules() {
    local first='tcp flags & (syn | ack) == (syn | ack) meta skuid != @here drop'
    local last='oifname != "lo" tcp flags & (syn | ack) == (syn | ack) tcp sport 1024-65535 drop'
    if [ "$1" = head ]; then first='oifname "lo" accept' last=''; fi
    cat <<EOF
table inet gpucluster_jobs
delete table inet gpucluster_jobs
table inet gpucluster_jobs {
    set nodes { type uid . ipv4_addr; }
    set here { type uid; }
    set head { type ipv4_addr; }
    set ssh_here { type uid; size 65535; flags dynamic; timeout 2m; }
    set ssh_there { type uid . ipv4_addr; size 65535; flags dynamic; timeout 2m; }
    chain output {
        type filter hook output priority filter; policy accept;
        meta skuid { 1000-59999, 65536-4294967294 } meta skuid != $2 goto user
        meta skuid 0-4294967295 accept
        $last
    }
    chain ssh {
        oifname "lo" update @ssh_here { meta skuid limit rate over 1/second burst 40 packets } reject with tcp reset
        oifname "lo" return
        ip daddr $3 update @ssh_there { meta skuid . ip daddr limit rate over 1/second burst 40 packets } reject with tcp reset
    }
    chain user {
        tcp flags & (syn | ack) == syn tcp dport { $NFS_PORT, $EXPORTER_PORT, 988, 2049 } reject
        oifname "lo" tcp flags & (syn | ack) == syn tcp dport $FIRST_TUNNEL-$LAST_TUNNEL reject
        meta skuid 65536-4294967294 tcp dport 22 reject with tcp reset
        tcp dport 22 tcp flags & (syn | ack) == syn jump ssh
        $first
        tcp flags & (syn | ack) != syn accept
        meta l4proto { tcp, udp } th dport 1-1023 accept
        oifname "lo" tcp dport 9911 accept
        oifname "lo" meta skuid @here accept
        oifname "lo" reject
        ip daddr @head tcp dport 61000-64999 accept
        ip daddr $3 meta skuid . ip daddr @nodes accept
        ip daddr $3 reject
        meta nfproto ipv6 reject
    }
}
EOF
}
