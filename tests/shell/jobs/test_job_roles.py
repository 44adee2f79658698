"""Runs jobs whose processes have roles, in bash with a stand-in for srun: their environment, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stubbed_jobs import wait_for

from gpucluster.config import loads
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand
from gpucluster.submission.submit import folder_files
from localcloud.testing import patience

CONFIG = """
name: Test
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]
software: {frameworks: [mxnet, tensorflow]}
"""
SERVERS = "parameter_servers: {instance_type: m4.16xlarge, max_nodes: 4}\n"
LAUNCHERS = ["mxnet-ps", "tensorflow-ps", "tensorflow-mwms"]

# Starts every task here, each with the step's input; the first that fails ends the others.
SRUN = r"""#!/usr/bin/env bash
echo "srun $*" >>"$STUBS/calls"
tasks=1 nodes=1 partition=train per_node=1 list='' cyclic=''
while [[ $1 == --* ]]; do
  case $1 in
    --ntasks=*) tasks=${1#*=} ;;
    --nodes=*) nodes=${1#*=} ;;
    --ntasks-per-node=*) per_node=${1#*=} ;;
    --nodelist=*) list=${1#*=} ;;
    --distribution=cyclic) cyclic=1 ;;
    --het-group=1) partition=ps ;;
  esac
  shift
done
exec {input}<&0
feeds=() pids=()
trap 'kill -TERM "${pids[@]}" 2>/dev/null' TERM
for ((task = 0; task < tasks; task++)); do
  node=$((${cyclic:-0} ? task % nodes : task / per_node)) local=$((${cyclic:-0} ? task / nodes : task % per_node))
  SLURM_PROCID=$task SLURM_NTASKS=$tasks SLURM_LOCALID=$local SLURM_NODEID=$node \
    SLURMD_NODENAME=${list:-$partition-$((node + 1))} CUDA_VISIBLE_DEVICES=0,1,2,3 "$@" <&"$input" {input}<&- &
  pids+=($!)
done
code=0
for _ in "${pids[@]}"; do
  wait -n || { code=$?; break; }
done
[ "$code" -eq 0 ] || kill -TERM "${pids[@]}" 2>/dev/null
wait
exit "$code"
"""

STUBS = {
    "srun": SRUN,
    "scontrol": '#!/usr/bin/env bash\nfor i in 1 2; do echo "${3%%-*}-$i"; done\n',
    "getent": '#!/usr/bin/env bash\ncase $2 in ps-*) net=1 ;; *) net=0 ;; esac\necho "10.0.$net.${2##*-} STREAM $2"\n',
    "ip": '#!/usr/bin/env bash\necho "2: ens5    inet ${@: -1}/24 brd 10.0.0.255 scope global ens5"\n',
}

# MXNet's import does not return in a server; the real one ends when the workers have.
MXNET = """
import json, os, sys, time
if os.environ["DMLC_ROLE"] != "worker":
    place = os.environ["OUT"] + "/" + os.environ["GPUCLUSTER_LABEL"]
    open(place, "w").write(json.dumps([os.environ["GPUCLUSTER_NODE_NAME"], dict(os.environ), sys.path]))
    if os.environ.get("BROKEN") == os.environ["GPUCLUSTER_LABEL"]:
        raise MemoryError("no room for the parameters")
    while not os.path.exists(os.environ["OUT"] + "/over"):
        time.sleep(0.05)
"""

PROGRAM = """
import json, os, sys, time
role, rank = os.environ["GPUCLUSTER_ROLE"], os.environ.get("RANK")
name = role if role == "chief" and rank is None else rank or os.environ["GPUCLUSTER_LABEL"]
out = os.environ["OUT"]
with open(f"{out}/{name}.new", "w") as file:
    json.dump([os.environ["GPUCLUSTER_NODE_NAME"], dict(os.environ), sys.argv[1:]], file)
os.rename(f"{out}/{name}.new", f"{out}/{name}")
while len([each for each in os.listdir(out) if each != "over" and not each.endswith(".new")]) < int(sys.argv[1]):
    time.sleep(0.05)
print("all there", flush=True)
"""
WAIT = "import time\nwhile True: time.sleep(1)\n"


def prepare(tmp_path: Path, keys, cluster: str = CONFIG) -> dict:
    layout, folder, stubs = expand(loads(cluster)), tmp_path / "job", tmp_path / "stubs"
    request = SbatchRequest.from_spec(load(layout, flags={"nodes": 2, "preflight": "off"} | keys), layout, str(folder))
    stubs.mkdir()
    (tmp_path / "out").mkdir()
    (folder / "code").mkdir(parents=True)
    for name, file in folder_files(request, {}).items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(file.text)
    for name, text in STUBS.items():
        (stubs / name).write_text(text)
        (stubs / name).chmod(0o755)
    (stubs / "mxnet.py").write_text(MXNET)
    path = f"$(readlink -m /home/gpucluster/envs/{request.environment})/bin"
    script = (folder / "job.sbatch").read_text().replace(path, str(stubs))
    script = script.replace(
        "GPUCLUSTER_NODE=SLURMD_NODENAME", "GPUCLUSTER_NODE=SLURMD_NODENAME GPUCLUSTER_NODE_NAME=SLURMD_NODENAME"
    )
    (folder / "job.sbatch").write_text(script)
    environment = {
        "PATH": f"{stubs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(stubs),
        "HOME": str(tmp_path),
        "STUBS": str(stubs),
        "OUT": str(tmp_path / "out"),
        "PORT": "80",
        "SLURM_JOB_ID": str(7000 + os.getpid() % 1000),
        "SLURM_JOB_NODELIST": "train-[1-2]",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "ps-[1-2]",
        "SLURM_CPUS_ON_NODE": "8",
        "SLURMD_NODENAME": "train-1",
    }
    run_it = ["bash", "-c", 'exec bash "$0" >>"$1" 2>&1', str(folder / "job.sbatch"), str(folder / "log.txt")]
    return {"args": run_it, "env": environment, "cwd": folder / "code"}


def finished(tmp_path: Path):
    folder = tmp_path / "job"
    return json.loads((folder / "result.json").read_text()), (folder / "log.txt").read_text()


def run(tmp_path: Path, keys, cluster: str = CONFIG, **environment):
    job = prepare(tmp_path, keys, cluster)
    started = time.monotonic()
    subprocess.run(**job | {"env": job["env"] | environment}, timeout=60, check=False)
    return *finished(tmp_path), time.monotonic() - started


def told(tmp_path: Path) -> dict[str, tuple]:
    return {
        path.name: tuple(json.loads(path.read_text())) for path in (tmp_path / "out").iterdir() if path.name != "over"
    }


def program(count: int, then: str = "") -> tuple[str, ...]:
    return ("python", "-c", PROGRAM + then, str(count), "a b")


def test_mxnet_has_a_scheduler_and_servers_on_their_own_nodes(tmp_path):
    over = 'open(os.environ["OUT"] + "/over", "w")'
    keys = {"launcher": "mxnet-ps", "servers": {"ratio": 1.0, "per_node": 2}, "command": program(7, over)}
    result, log, _ = run(tmp_path, keys, CONFIG + SERVERS)
    assert result["exit_code"] == 0, log
    assert result["node_list"] == ["train-1", "train-2", "ps-1", "ps-2"]
    seen = told(tmp_path)
    places = {name: node for name, (node, *_) in seen.items()}
    assert places == {
        "scheduler": "train-1", "0": "train-1", "1": "train-2",
        "server-0": "ps-1", "server-1": "ps-2", "server-2": "ps-1", "server-3": "ps-2",
    }  # fmt: skip
    for name, (node, environment, *_) in seen.items():
        role = "worker" if name.isdigit() else name.partition("-")[0]
        address = f"10.0.{int(node.startswith('ps'))}.{node[-1]}"
        assert (environment["DMLC_ROLE"], environment["DMLC_NODE_HOST"]) == (role, address)
        assert environment["DMLC_PS_ROOT_URI"] == "10.0.0.1"
        assert (environment["DMLC_NUM_SERVER"], environment["DMLC_NUM_WORKER"]) == ("4", "2")
        assert "PORT" not in environment
        assert environment["CUDA_VISIBLE_DEVICES"] == ("0,1,2,3" if name.isdigit() else "")
    assert len({environment["DMLC_PS_ROOT_PORT"] for _, environment, *_ in seen.values()}) == 1
    assert [seen[rank][1]["RANK"] for rank in "01"] == ["0", "1"]


def test_mxnet_servers_look_for_modules_where_the_program_does(tmp_path):
    job = prepare(tmp_path, {"launcher": "mxnet-ps", "command": ("python", "sub/train.py", "5")})
    (tmp_path / "job/code/sub").mkdir()
    (tmp_path / "job/code/sub/train.py").write_text(PROGRAM + 'open(os.environ["OUT"] + "/over", "w")')
    subprocess.run(**job, timeout=60, check=False)
    assert str(tmp_path / "job/code/sub") in told(tmp_path)["server-0"][2], finished(tmp_path)[1]


@pytest.mark.parametrize("cluster", [CONFIG, CONFIG + SERVERS])
def test_servers_without_nodes_of_their_own_are_beside_the_workers(tmp_path, cluster):
    servers = {"nodes": 3} if "parameter_servers" not in cluster else {}
    count = servers.get("nodes", 2)
    keys = {"launcher": "tensorflow-ps", "servers": servers, "command": program(3 + count)}
    result, log, _ = run(tmp_path, keys, cluster)
    assert result["exit_code"] == 0, log
    places = {name: node for name, (node, *_) in told(tmp_path).items()}
    assert {name: node for name, node in places.items() if name.startswith("server")} == {
        f"server-{i}": f"train-{i % 2 + 1}" for i in range(count)
    }
    assert "--het-group" not in (tmp_path / "stubs/calls").read_text()


def test_tensorflow_gets_the_addresses_of_all_processes(tmp_path):
    keys = {"launcher": "tensorflow-ps", "servers": {"nodes": 2}, "ntasks_per_node": 2, "command": program(7)}
    result, log, _ = run(tmp_path, keys, CONFIG + SERVERS)
    assert result["exit_code"] == 0, log
    seen = told(tmp_path)
    configs = {name: json.loads(environment["TF_CONFIG"]) for name, (_, environment, _) in seen.items()}
    (cluster,) = {json.dumps(config["cluster"]) for config in configs.values()}
    hosts = {role: [each.partition(":")[0] for each in entries] for role, entries in json.loads(cluster).items()}
    assert hosts == {
        "chief": ["10.0.0.1"],
        "worker": ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"],
        "ps": ["10.0.1.1", "10.0.1.2"],
    }
    endpoints = [each for entries in json.loads(cluster).values() for each in entries]
    assert len(set(endpoints)) == len(endpoints)
    tasks = {name: (config["task"]["type"], config["task"]["index"]) for name, config in configs.items()}
    assert tasks == {f"{i}": ("worker", i) for i in range(4)} | {
        "chief": ("chief", 0), "server-0": ("ps", 0), "server-1": ("ps", 1),
    }  # fmt: skip
    assert [seen[f"{i}"][1]["CUDA_VISIBLE_DEVICES"] for i in range(4)] == ["0,1", "2,3", "0,1", "2,3"]
    assert seen["chief"][1]["CUDA_VISIBLE_DEVICES"] == seen["server-0"][1]["CUDA_VISIBLE_DEVICES"] == ""
    threads = {name: environment["OMP_NUM_THREADS"] for name, (_, environment, _) in seen.items()}
    on_servers = str(len(os.sched_getaffinity(0)))  # each has its node to itself; the workers have GPUs
    assert threads == dict.fromkeys("0123", "1") | {"chief": "1", "server-0": on_servers, "server-1": on_servers}
    assert all(arguments == ["7", "a b"] for _, _, arguments in seen.values())


def test_the_first_worker_of_mwms_is_the_chief(tmp_path):
    result, log, _ = run(tmp_path, {"launcher": "tensorflow-mwms", "ntasks_per_node": 2, "command": program(4)})
    assert result["exit_code"] == 0, log
    seen = told(tmp_path)
    configs = {name: json.loads(environment["TF_CONFIG"]) for name, (_, environment, _) in seen.items()}
    assert {name: config["task"] for name, config in configs.items()} == {
        f"{i}": {"type": "worker", "index": i} for i in range(4)
    }
    assert [set(config["cluster"]) for config in configs.values()] == [{"worker"}] * 4
    assert {name: (node, env["LOCAL_RANK"], env["NODE_RANK"]) for name, (node, env, _) in seen.items()} == {
        "0": ("train-1", "0", "0"), "1": ("train-1", "1", "0"), "2": ("train-2", "0", "1"), "3": ("train-2", "1", "1"),
    }  # fmt: skip
    assert log.count("] all there") == 4


def test_tensorflow_mwms_runs_on_one_node(tmp_path):
    job = prepare(tmp_path, {"launcher": "tensorflow-mwms", "nodes": 1, "command": program(1)})
    (tmp_path / "stubs/scontrol").write_text("#!/usr/bin/env bash\necho train-1\n")
    subprocess.run(**job, timeout=60, check=False)
    result, log = finished(tmp_path)
    assert (result["exit_code"], result["world_size"]) == (0, 1), log


@pytest.mark.parametrize("code", [0, 7])
def test_the_job_ends_with_its_chief_and_its_exit_code(tmp_path, code):
    then = f'\nsys.exit({code}) if role == "chief" else None\n' + WAIT
    keys = {"launcher": "tensorflow-ps", "servers": {"nodes": 2}, "command": program(5, then)}
    result, log, took_s = run(tmp_path, keys, CONFIG + SERVERS)
    assert took_s < patience.stretched(15), log
    assert result["exit_code"] == code, log
    assert result["failed_rank"] == ("chief" if code else None)
    assert ("error: chief on train-1 exited with code 7: all there" in log) == bool(code)
    assert log.count("exited with") == (2 if code else 0)
    assert "srun" not in log


FAILURES = [
    ("mxnet-ps", "1", 1, "train-2"),
    ("tensorflow-ps", "1", 1, "train-2"),
    ("tensorflow-ps", "server-0", "server-0", "ps-1"),
    ("tensorflow-mwms", "0", 0, "train-1"),
    ("tensorflow-mwms", "1", 1, "train-2"),
]


@pytest.mark.parametrize(("launcher", "name", "failed", "node"), FAILURES)
def test_a_failed_process_ends_the_job_and_is_named(tmp_path, launcher, name, failed, node):
    then = f'\nif name == "{name}": raise ValueError("boom")\n' + WAIT
    servers = {} if launcher == "tensorflow-mwms" else {"servers": {"nodes": 2}}
    count = 2 if launcher == "tensorflow-mwms" else 5
    result, log, took_s = run(
        tmp_path, {"launcher": launcher, "command": program(count, then)} | servers, CONFIG + SERVERS
    )
    assert took_s < patience.stretched(15), log
    assert (result["exit_code"], result["failed_rank"], result["failed_node"]) == (1, failed, node), log
    assert result["reason"] == "ValueError: boom"
    who = name if name.startswith("server") else f"rank {name}"
    assert log.splitlines()[-1] == f"error: {who} on {node} exited with code 1: ValueError: boom"
    assert not left(tmp_path)


LATE = [
    ("tensorflow-mwms", 'if name == "1": time.sleep(2); raise ValueError("boom")', (1, 1, "ValueError: boom")),
    ("tensorflow-mwms", 'if name == "1": time.sleep(2); os._exit(7)', (7, 1, "all there")),
    ("tensorflow-mwms", 'if name == "1": time.sleep(2); os.kill(os.getppid(), 9); time.sleep(9)', (137, None, None)),
    ("tensorflow-mwms", 'if name == "1": time.sleep(60)', (0, None, None)),
]


@pytest.mark.parametrize(("launcher", "then", "end"), LATE, ids=["raises", "exits", "is lost", "goes on"])
def test_a_rank_that_fails_after_the_leading_step_fails_the_job(tmp_path, launcher, then, end):
    """For example the evaluation of one worker, a moment after the chief has ended."""
    result, log, _ = run(tmp_path, {"launcher": launcher, "command": program(2, f"\n{then}\n")})
    code, failed, reason = end
    assert (result["exit_code"], result["failed_rank"]) == (code, failed), log
    assert (result["reason"] is None) == (code == 0)
    assert reason in (None, result["reason"])
    assert not left(tmp_path)


def test_a_server_that_fails_when_the_workers_have_ended_does_not_fail_the_job(tmp_path):
    then = "\nif name == 'server-0': time.sleep(1); sys.exit(5)\nif role == 'worker': time.sleep(30)\n"
    keys = {"launcher": "tensorflow-ps", "servers": {"nodes": 2}, "command": program(5, then)}
    result, log, _ = run(tmp_path, keys, CONFIG + SERVERS)
    assert (result["exit_code"], result["failed_rank"]) == (0, None), log


@pytest.mark.parametrize(("launcher", "name", "saved"), [("tensorflow-ps", "server-0", 3), ("tensorflow-mwms", "1", 1)])
def test_ranks_have_time_to_save_when_another_process_fails(tmp_path, launcher, name, saved):
    """A real srun that gets SIGTERM sends SIGKILL to its tasks (_srun_signal_mgr in Slurm's srun_job.c)."""
    then = f"""
import signal
def save(number, frame):
    time.sleep(1)
    open(out + "/../saved-" + name, "w")
    sys.exit(143)
if name == "{name}": time.sleep(1); sys.exit(3)
if not name.startswith("server"): signal.signal(signal.SIGTERM, save)
{WAIT}"""
    servers = {} if launcher == "tensorflow-mwms" else {"servers": {"nodes": 2}}
    count = 2 if launcher == "tensorflow-mwms" else 5
    job = prepare(tmp_path, {"launcher": launcher, "command": program(count, then)} | servers, CONFIG + SERVERS)
    srun = tmp_path / "stubs" / "srun"
    forwards = """trap 'kill -TERM "${pids[@]}" 2>/dev/null' TERM"""
    assert forwards in srun.read_text()
    srun.write_text(srun.read_text().replace(forwards, forwards.replace("-TERM", "-KILL")))
    subprocess.run(**job, timeout=60, check=False)
    result, log = finished(tmp_path)
    assert result["exit_code"] == 3, log
    assert len(list(tmp_path.glob("saved-*"))) == saved, log


def test_an_error_that_a_server_survives_is_in_the_result(tmp_path):
    """MXNet's servers print it, and go on without the optimizer."""
    then = "\nif name == 'server-1':\n try: {}['My']\n except KeyError: import traceback; traceback.print_exc()\n"
    wait = "if role == 'chief': time.sleep(2)\nelse: time.sleep(60)\n"
    keys = {"launcher": "tensorflow-ps", "servers": {"nodes": 2}, "command": program(5, then + wait)}
    result, log, _ = run(tmp_path, keys, CONFIG + SERVERS)
    assert (result["exit_code"], result["server_errors"]) == (0, {"server-1": "KeyError: 'My'"}), log


def test_a_server_of_mxnet_that_fails_ends_the_job(tmp_path):
    keys = {"launcher": "mxnet-ps", "servers": {"nodes": 2}, "command": program(4, "\n" + WAIT)}
    result, log, _ = run(tmp_path, keys, CONFIG + SERVERS, BROKEN="server-1")
    assert (result["failed_rank"], result["failed_node"]) == ("server-1", "ps-2"), log
    assert result["reason"] == "MemoryError: no room for the parameters"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_cancelled_job_ends_every_process(tmp_path, launcher):
    count = {"mxnet-ps": 5, "tensorflow-ps": 5, "tensorflow-mwms": 2}[launcher]
    job = prepare(tmp_path, {"launcher": launcher, "command": program(count, WAIT)})
    process = subprocess.Popen(**job)
    log = tmp_path / "job/log.txt"
    until = patience.seconds() + 30
    while "all there" not in log.read_text():
        assert patience.seconds() < until, log.read_text()
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    result, log = finished(tmp_path)
    assert (result["reason"], log.splitlines()[-1]) == ("cancelled", "error: cancelled")
    assert not left(tmp_path)


def test_two_jobs_on_the_same_nodes_use_different_ports(tmp_path):
    """Both search from the same port, because their ids are equal."""
    jobs = []
    for name in "ab":
        (tmp_path / name).mkdir()
        hold = f'\nwhile not os.path.exists("{tmp_path}/go"): time.sleep(0.05)\n'
        jobs.append(
            subprocess.Popen(**prepare(tmp_path / name, {"launcher": "tensorflow-mwms", "command": program(2, hold)}))
        )
    wait_for(lambda: all(len(list((tmp_path / name / "out").glob("[01]"))) == 2 for name in "ab"), 30)
    (tmp_path / "go").touch()
    assert [job.wait(30) for job in jobs] == [0, 0]
    ports = [
        [each.rpartition(":")[2] for each in json.loads(environment["TF_CONFIG"])["cluster"]["worker"]]
        for name in "ab"
        for _, environment, _ in [told(tmp_path / name)["0"]]
    ]
    assert not set(ports[0]) & set(ports[1])


def left(tmp_path: Path) -> list[str]:
    """Processes of this test that still run shortly after the job's end, except a shell's `sleep`."""
    until = patience.seconds() + 5
    while found := [each for each in Path("/proc").glob("[0-9]*/cmdline") if of_test(each, tmp_path)]:
        if patience.seconds() > until:
            return [each.read_text().replace("\0", " ") for each in found]
        time.sleep(0.1)
    return []


def of_test(cmdline: Path, tmp_path: Path) -> bool:
    try:
        environment = (cmdline.parent / "environ").read_bytes()
        command = cmdline.read_bytes()
        ours = command and not command.startswith(b"sleep\0") and b"job.sbatch" not in command
        return bool(ours) and f"OUT={tmp_path}/out\0".encode() in environment
    except (OSError, PermissionError):
        return False
