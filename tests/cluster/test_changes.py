"""Deploying again, and running a role again, on the session's cluster."""

from __future__ import annotations

import json

from bed import Bed, wait_for

# Every file that a role could write, with its hash and its time; not the logs, nor what Slurm and its database keep.
_FILES = """
find /etc /opt/gpucluster /home/gpucluster /home/ubuntu/.ssh /var/spool/cron /usr/local -xdev -type f \
    -not -path '*/slurm-state/*' -not -path '*/mysql/*' -not -name '*.pyc' \
    -printf '%p %T@ %m %U:%G ' -exec sha256sum {} \\; | sort
"""
# When each service was started; what timers start is left out, and so are sessions and the clean-up of them.
_SERVICES = """
systemctl list-units --type=service --state=active --no-legend --plain | awk '{print $1}' |
    grep -Ev '^(gpucluster-(update|reconcile)|user|session|systemd-(tmpfiles|hostnamed|timedated))' | sort |
    xargs -n 1 systemctl show -p Id,ActiveEnterTimestampMonotonic,MainPID
"""


def raise_max_nodes(cluster: Bed, nodes: int) -> None:
    text = cluster.config.read_text()
    changed = text.replace("max_nodes: 4", f"max_nodes: {nodes}")
    assert changed != text
    cluster.config.write_text(changed)


def test_diff_after_deploy_shows_no_change(cluster: Bed) -> None:
    done = cluster.cdk("diff", "--fail")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "There were no differences" in done.stdout + done.stderr


def test_up_twice_changes_nothing(cluster: Bed) -> None:
    assert cluster.up()["changed"] is False


def test_running_a_role_twice_changes_nothing(cluster: Bed) -> None:
    job = cluster.submit("--nodes", "1", "--launcher", "srun", "--follow", "--", "true")
    (node,) = job.result["node_list"]
    for role, where in (("head", []), ("compute", ["ssh", node])):
        look = [*where, "sudo", "bash", "-s"]
        before = _said(cluster, look, _FILES + _SERVICES)
        log = _said(cluster, look, f"bash /opt/gpucluster/bundle/{role}.sh 2>&1")
        assert "status=failed" not in log
        assert _said(cluster, look, _FILES + _SERVICES) == before
        assert len(before.splitlines()) > 100


def _said(cluster: Bed, shell: list[str], script: str) -> str:
    import base64

    text = base64.b64encode(script.encode()).decode()
    return cluster.ssh("sh", "-c", f"echo {text} | base64 -d | {' '.join(shell)}")


def test_more_nodes_are_live_when_up_returns_and_a_running_job_does_not_notice(cluster: Bed) -> None:
    heads = cluster.instances("head")
    program = ["bash", "-c", "while [ ! -e $GPUCLUSTER_JOB_DIR/go-on ]; do sleep 1; done; echo same process $$"]
    job = cluster.submit("--nodes", "1", "--launcher", "srun", "--", *program)
    job_id = job.last["job_id"]
    wait_for("the job's start", lambda: cluster.ssh("squeue", "-h", "-o", "%t", "-j", job_id).strip() == "R", 90)
    started = cluster.ssh("scontrol", "show", "job", job_id).split("StartTime=")[1].split()[0]

    raise_max_nodes(cluster, 6)
    assert cluster.up()["changed"] is True

    assert "train-6" in cluster.ssh("scontrol", "show", "hostnames", cluster.ssh("sinfo", "-h", "-o", "%N").strip())
    assert cluster.instances("head").keys() == heads.keys()
    shown = cluster.ssh("scontrol", "show", "job", job_id)
    assert "JobState=RUNNING" in shown
    assert f"StartTime={started}" in shown
    assert "Restarts=0" in shown
    cluster.ssh("touch", f"{job.last['folder']}/go-on")
    wait_for("the job's end", lambda: "same process" in cluster.gpucluster("logs", job_id).stdout, 60)
    result = json.loads(cluster.ssh("cat", f"{job.last['folder']}/result.json"))
    assert result["exit_code"] == 0


def test_a_node_that_was_ended_comes_back_as_a_new_instance(cluster: Bed) -> None:
    """With the name, and mostly the address, that its predecessor had."""
    job = cluster.submit("--nodes", "1", "--launcher", "srun", "--follow", "--", "true")
    (node,) = job.result["node_list"]
    before = cluster.instances("compute")
    cluster.ssh("sudo", "scontrol", "update", f"nodename={node}", "state=power_down_force")
    wait_for("its end", lambda: len(cluster.instances("compute")) == len(before) - 1, 60)
    wait_for("Slurm's word", lambda: "idle~" in cluster.ssh("sinfo", "-h", "-n", node, "-o", "%t"), 120)
    again = cluster.submit(
        "--nodes", "1", "--launcher", "srun", "--sbatch-args=--nodelist=" + node, "--follow", "--", "true"
    )
    assert again.exit_code == 0, again.told
    assert again.result["node_list"] == [node]
    assert len(cluster.instances("compute").keys() - before.keys()) == 1
