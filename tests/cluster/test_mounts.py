"""File systems that nodes mount at boot, seen from jobs."""

from __future__ import annotations

from bed import Bed, Submitted

WRITES = """
for mount in /fsx /efs; do
    mountpoint -q $mount
    echo "of $(hostname)" >$mount/mounts-$(hostname)
done
mkdir -p /fsx/results/mounts
if touch /fsx/data/mounts; then echo wrote to what is only read in; fi
grep -E "^[^ ]+ /(fsx|efs) " /etc/fstab | cut -d" " -f2,3
"""


def completed(storage: Bed, nodes: int, script: str) -> Submitted:
    """A job that ran the script once on each node."""
    shape = ("--nodes", str(nodes), "--ntasks-per-node", "1", "--launcher", "srun")
    job = storage.submit(*shape, "--follow", "--", "bash", "-ec", script, timeout_s=400)
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    return job


def test_jobs_on_every_node_share_what_is_mounted(storage: Bed) -> None:
    job = completed(storage, 2, WRITES)
    assert not [line for line in job.log if "wrote to" in line]
    assert {"/fsx lustre", "/efs nfs4"} <= {line.partition("] ")[2] for line in job.log}, (
        "they are there after a reboot"
    )
    for node in job.result["node_list"]:
        for mount in ("/fsx", "/efs"):
            assert storage.ssh("cat", f"{mount}/mounts-{node}") == f"of {node}\n"


def test_efs_is_mounted_through_a_tunnel_that_checks_the_certificate(storage: Bed) -> None:
    said = storage.ssh(
        "sh", "-c", "grep -h -E '^(verifyChain|checkHost|connect)' /etc/gpucluster/tunnels/gpucluster-efs-efs.conf"
    )
    host = said.splitlines()[0].partition(" = ")[2].removesuffix(":2049")
    assert sorted(said.splitlines()) == [f"checkHost = {host}", f"connect = {host}:2049", "verifyChain = yes"]
    assert storage.ssh("systemctl", "is-active", "gpucluster-efs-efs").strip() == "active"


READS = """
{
    systemctl show --property=Id --property=NeedDaemonReload "*" | grep -B 1 "^NeedDaemonReload=yes" || true
    systemctl show --property=SourcePath fsx.mount home.mount
    systemctl is-enabled munge slurmd gpucluster-scratch gpucluster-imds-guard
    sudo journalctl --boot _PID=1 | grep -c "Reload requested from"
} | sed -n "s/./read: &/p"
"""


def test_systemd_knows_all_units_of_a_node_after_few_reloads(storage: Bed) -> None:
    job = completed(storage, 1, READS)
    *known, reloads = [said for line in job.log if (said := line.partition("] read: ")[2])]
    assert known == ["SourcePath=/etc/fstab"] * 2 + ["enabled"] * 4
    assert 1 <= int(reloads) <= 8, "20 with one at each service; the CloudWatch agent's own script makes two"
