"""Samples on booted nodes: the sampler, node_exporter and Prometheus run, while a job runs and after it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from bed import Bed, wait_for

from gpucluster import account
from gpucluster.following import usage
from gpucluster.head.remote import SshRemote

PROGRAM = """
import json, os, pathlib, time
end, last = time.time() + 45, pathlib.Path("/run/gpucluster/metrics", os.environ["SLURM_JOB_ID"], "last.json")
last.write_text(json.dumps({"loss": 0.5}))
while time.time() < end: pass
"""
JOB = ("--no-exclusive", "--gpus-per-node", "1", "--launcher", "srun", "--", "python", "-c", PROGRAM)
METRIC = "http://127.0.0.1:301/api/v1/query --data-urlencode 'query=gpucluster_job_metric{job=\"JOB\"}'"
Found = TypeVar("Found")


def until(what: str, ask: Callable[[], Found | None], seconds: float) -> Found:
    found: list[Found] = []

    def asked() -> bool:
        found[:] = [answer for answer in (ask(),) if answer is not None]
        return bool(found)

    wait_for(what, asked, seconds)
    return found[0]


@pytest.fixture
def remote(people: Bed) -> SshRemote:
    return people._remote()


def busy(remote: SshRemote) -> usage.NodeNow | None:
    """The node whose GPUs work."""
    nodes = usage.now(remote)
    return next((node for node in nodes if any(gpu.util_percent > 0 for gpu in node.gpus)), None)


def test_a_jobs_samples_while_it_runs_and_after_it(people: Bed, remote: SshRemote) -> None:
    began = time.time()
    done = people.of("bob").submit(*JOB)
    job_id = str(done.last["job_id"])
    node = until("samples of the job's GPUs", lambda: busy(remote), 400)
    assert node.memory_gib > node.memory_used_gib > 0
    assert len(node.gpus) == 4 and all(gpu.memory_gib > 20 for gpu in node.gpus)

    said = people.ssh("sh", "-c", f"curl -s {METRIC.replace('JOB', job_id)}")
    assert '"name":"loss"' in said and f'"instance":"{node.node}"' in said
    cost = sampling_percent(people, node.node)
    print(f"sampling takes {cost:.2f} % of a processor")
    assert cost < 0.5

    written = f"/home/bob/jobs/by-id/{job_id}/usage/{job_id}/{node.node}.json"
    read = f"sudo cat {written} 2>/dev/null || :"
    of_node = until("the job's summary", lambda: parsed(people.ssh("sh", "-c", read)), 240)
    assert of_node["node"] == node.node and of_node["samples"] > 5
    (gpu,) = of_node["gpus"]
    assert gpu["util_percent"]["max"] > 0 and gpu["energy_kwh"] > 0 and gpu["idle_share"] < 1
    assert people.ssh("sudo", "stat", "-c", "%U", written).strip() == "bob", "root writes nothing into a user's folder"

    series = usage.series(remote, [node.node], began, time.time(), ["gpu_util_percent", "memory_gib"])
    assert max(value for each in series if each.name == "gpu_util_percent" for _, value in each.points) > 0
    assert {each.gpu for each in series if each.name == "memory_gib"} == {None}


def parsed(text: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = json.loads(text) if text.strip() else None
    return found


def sampling_percent(people: Bed, node: str) -> float:
    """What the sampler and node_exporter take of a processor."""
    before, then = cpu(people, node)
    time.sleep(15)
    after, now = cpu(people, node)
    return (after - before) / (now - then)


def cpu(people: Bed, node: str) -> tuple[int, float]:
    """User and system time of both services in hundredths of a second, and the seconds since the boot."""
    units = "systemctl show --property=MainPID --value gpucluster-samples gpucluster-node-exporter"
    script = f"for pid in $({units}); do cut -d' ' -f14,15 /proc/$pid/stat; done; cut -d' ' -f1 /proc/uptime"
    *used, now = people.ssh("ssh", node, script).split()
    assert len(used) == 4
    return sum(map(int, used)), float(now)


def test_a_user_reaches_no_nodes_samples_but_prometheus(people: Bed) -> None:
    ask = "curl -s --max-time 5 -o /dev/null -w '%{http_code}\\n'"
    asked = f"{ask} 127.0.0.1:300/metrics; {ask} 127.0.0.1:301/-/ready; true"
    users = ("bob", account.ADMINISTRATOR)
    said = {user: people.of(user).gpucluster("ssh", "--", asked).stdout.split() for user in users}
    assert said == {"bob": ["000", "200"], account.ADMINISTRATOR: ["200", "200"]}
    listening = people.ssh("sh", "-c", "ss -Hltn 'sport = :301' | awk '{ print $4 }'").split()
    assert listening == ["127.0.0.1:301"]
