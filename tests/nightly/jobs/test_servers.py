"""Jobs with parameter servers, on nodes for workers and nodes for servers: real MXNet, real TensorFlow, exact sums."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from bed import ROOT, Bed, Submitted, wait_for
from killed_ranks import lose_rank_1

from localcloud.testing.patience import stretched

SUBJECTS = [
    "examples/servers/*",
    "gpucluster/launchers/*",
    "gpucluster*job/*",
    "gpucluster/job_keys.py",
    "templates/job/*",
    "bootstrap/environments/*.txt",
]
COVERED_BY = (
    "the processes, ports and ends of parameter servers in tests/shell; nodes of servers are launched in "
    "test_gpucluster_ways.py"
)
EXAMPLES = ROOT / "examples" / "servers"
LEARNED = 1e-3
BUILDING_S = 600
"""For a job whose environments are made before it."""
ALL_NODES = ["train-1", "train-2", "ps-1", "ps-2"]


def reports(job: Submitted) -> dict[str, dict[str, Any]]:
    """Label of a process -> the last line that it printed."""
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    lines = (line[1:].partition("] ") for line in job.log if line.startswith("[") and "] {" in line)
    return {label: json.loads(text) for label, _, text in lines}


@pytest.fixture(scope="module")
def mxnet(servers: Bed) -> Submitted:
    """The first job here. Afterwards all four nodes are up."""
    return servers.submit(str(EXAMPLES / "mxnet.yaml"), "--follow", timeout_s=BUILDING_S)


def test_mxnet_workers_and_servers_have_nodes_of_their_own(servers: Bed, mxnet: Submitted) -> None:
    told = reports(mxnet)
    assert set(told) == {"0 train-1", "1 train-2"}
    assert {each["sum"] for each in told.values()} == {3.0}
    assert all(each["error"] < LEARNED and each["workers"] == 2 for each in told.values())
    assert mxnet.result["node_list"] == ALL_NODES
    assert "2 servers on 2 of ps" in mxnet.told


def test_mxnet_servers_beside_the_workers(servers: Bed, mxnet: Submitted) -> None:
    command = ["--workdir", str(EXAMPLES), "--follow", "--", "python", "train_mxnet.py"]
    job = servers.submit("--launcher", "mxnet-ps", "--nodes", "2", "--servers", "per_node=2", *command)
    assert [(each["sum"], each["error"] < LEARNED) for each in reports(job).values()] == [(3.0, True)] * 2
    assert job.result["node_list"] == ["train-1", "train-2"]


def test_tensorflow_parameter_servers(servers: Bed, mxnet: Submitted) -> None:
    job = servers.submit(str(EXAMPLES / "tensorflow-ps.yaml"), "--follow", timeout_s=BUILDING_S)
    ((who, told),) = reports(job).items()
    assert who == "chief train-1"
    assert told["sum"] == told["expected"]
    assert told["error"] < LEARNED
    assert (told["workers"], len(told["servers"])) == (2, 2)
    places = {line.partition("]")[0][1:] for line in job.log if line.startswith(("[server-", "[0 ", "[1 "))}
    assert places == {"0 train-1", "1 train-2", "server-0 ps-1", "server-1 ps-2"}
    assert nothing_left(servers, "train_p[s]")


def test_tensorflow_workers_without_servers(servers: Bed, mxnet: Submitted) -> None:
    told = reports(servers.submit(str(EXAMPLES / "tensorflow-mwms.yaml"), "--follow"))
    assert set(told) == {"0 train-1", "1 train-2"}
    assert {each["sum"] for each in told.values()} == {3.0}
    assert all(each["error"] < LEARNED for each in told.values())


FAILING = """
import os, sys, time
os.environ.pop("DMLC_ROLE", None)
print("up", flush=True)
if os.environ.get("RANK") == "1": sys.exit("the seventh seal")
time.sleep(3000)
"""


@pytest.mark.parametrize("launcher", ["mxnet-ps", "tensorflow-ps", "tensorflow-mwms"])
def test_a_failing_rank_ends_the_job_on_all_nodes_and_is_named(servers: Bed, mxnet: Submitted, launcher: str) -> None:
    own = [] if launcher == "tensorflow-mwms" else ["--servers", "2"]
    command = ["--follow", "--", "python", "-c", FAILING]
    job = servers.submit("--launcher", launcher, "--nodes", "2", *own, *command)
    assert job.exit_code == 4, job.told + "\n".join(job.log)
    started, ended = (datetime.fromisoformat(job.result[key]) for key in ("started_at", "ended_at"))
    assert (ended - started).total_seconds() <= stretched(30)
    failed = (job.result["failed_rank"], job.result["failed_node"], job.result["reason"])
    assert failed == (1, "train-2", "the seventh seal")
    assert nothing_left(servers, "seventh.sea[l]|import.mxne[t]")


@pytest.mark.parametrize("launcher", ["mxnet-ps", "tensorflow-ps", "tensorflow-mwms"])
def test_a_killed_rank_ends_the_job_and_is_named(servers: Bed, mxnet: Submitted, launcher: str) -> None:
    own = [] if launcher == "tensorflow-mwms" else ["--servers", "2"]
    lose_rank_1(servers, 2, "--launcher", launcher, "--nodes", "2", *own)


def test_a_cancelled_job_leaves_nothing_on_any_node(servers: Bed, mxnet: Submitted) -> None:
    endless = FAILING.replace('"1"', '"9"')
    job = servers.submit("--launcher", "tensorflow-ps", "--nodes", "2", "--servers", "2", "--", "python", "-c", endless)
    job_id = job.last["job_id"]
    wait_for("its processes", lambda: servers.gpucluster("logs", job_id).stdout.count("] up") == 5, 90)
    assert servers.gpucluster("cancel", job_id).returncode == 0
    wait_for("its end", lambda: not servers.ssh("squeue", "-h", "-t", "R,CG", "-o", "%t"), 60)
    assert nothing_left(servers, "seventh.sea[l]")


def nothing_left(servers: Bed, pattern: str) -> bool:
    """No process with this in its command line on any node; the pattern must not match itself."""
    look = f"for node in {' '.join(ALL_NODES)}; do ssh $node \"pgrep -af '{pattern}'\"; done; true"
    wait_for("no process left", lambda: not servers.ssh(look).strip(), 30)
    return True
