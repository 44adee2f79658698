"""Runs generated scripts in bash, with stand-ins for Slurm and the launchers.

Does the program get its arguments and environment, and does the job report how it ended?
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from stubbed_jobs import PROBE, alive, change, finished, prepare, wait_for

from localcloud.testing.patience import stretched

LAUNCHERS = ["torchrun", "horovodrun", "mpirun", "srun"]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_arguments_and_environment_arrive_byte_for_byte(tmp_path, launcher):
    words = [
        "",
        "a b",
        "it's",
        '"$HOME"',
        "`id`",
        "--flag=1",
        "--",
        "*",
        "back\\slash",
        "ünï",
        "two\nlines",
        "%s",
        "!x",
        "#",
    ]
    values = {"PLAIN": "x", "ODD": 'it\'s "$PATH" `id` \\ \n two * ünï', "EMPTY": ""}
    job = prepare(tmp_path, {}, {"launcher": launcher, "command": ("python", "-c", PROBE, *words), "env": values})
    # the job's script has those of its own only task
    job["env"] |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS": "2"}
    job["env"] |= {
        "SLURM_NPROCS": "2",
        "SLURM_GTIDS": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_TASKS_PER_NODE": "1(x2)",
    }
    if launcher == "srun":
        job["env"].pop("SLURM_NPROCS")
    process = subprocess.run(**job, timeout=60, check=False)
    code, result, log, _ = finished(process.returncode, tmp_path / "job")
    assert (code, result["exit_code"]) == (0, 0), log
    for rank in range(4):
        arguments, environment = json.loads((tmp_path / str(rank)).read_text())
        assert arguments == words
        assert {name: environment[name] for name in values} == values
        expected = {"RANK": rank, "LOCAL_RANK": rank % 2, "WORLD_SIZE": 4, "NODE_RANK": rank // 2}
        assert {name: int(environment[name]) for name in expected} == expected
        assert (environment["NUM_NODES"], environment["GPUS_PER_NODE"], environment["OMP_NUM_THREADS"]) == (
            "2",
            "4",
            "1",
        )
        assert environment["CPUS_PER_RANK"] == str(max(1, len(os.sched_getaffinity(0)) // 2))
        assert environment["GLOO_SOCKET_IFNAME"] == "ens5"
        assert environment["MASTER_ADDR"] == "10.0.0.1"
        slurms = {"PROCID": rank, "LOCALID": rank % 2, "NODEID": rank // 2, "NTASKS": 4, "NPROCS": 4}
        assert {name: int(environment.get(f"SLURM_{name}", 4)) for name in slurms} == slurms
        assert environment["SLURMD_NODENAME"] == f"train-{rank // 2 + 1}"
        if launcher != "srun":
            assert (environment["SLURM_TASKS_PER_NODE"], environment["SLURM_NTASKS_PER_NODE"]) == ("2(x2)", "2")
            assert not {"SLURM_GTIDS", "SLURM_STEP_NUM_TASKS"} & environment.keys()
        assert "bin:" not in environment["PATH"].partition(str(tmp_path / "stubs"))[0]
        if launcher == "horovodrun":
            assert environment["HOROVOD_GLOO_IFACE"] == "ens5"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_variables_of_the_dynamic_loader_reach_only_programs(run_job, tmp_path, launcher):
    """ld.so reports a library that it cannot preload once for each program that starts (ld.so(8), LD_PRELOAD)."""
    values = {"LD_PRELOAD": "/none/lib.so", "LD_LIBRARY_PATH": "/none"}
    code, result, log, _ = run_job(launcher=launcher, command=("python", "-c", PROBE), env=values)
    assert (code, result["exit_code"]) == (0, 0), log
    for rank in range(4):
        environment = json.loads((tmp_path / str(rank)).read_text())[1]
        assert {name: environment[name] for name in values} == values
    complaints = [line for line in log.splitlines() if "cannot be preloaded" in line]
    # torchrun's own Python may need them, as that of a venv whose interpreter is in no standard folder
    assert any(not re.match(r"\[\d ", line) for line in complaints) == (launcher == "torchrun")


def test_the_users_path_comes_before_the_jobs(run_job, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "tool").write_text('#!/usr/bin/env bash\necho "found by $RANK, and $(command -v sed)"\n')
    (mine / "tool").chmod(0o755)
    code, result, log, _ = run_job(launcher="srun", command=("tool",), env={"PATH": str(mine)})
    assert (code, result["exit_code"]) == (0, 0), log
    assert sum(line.partition("] ")[2].startswith("found by ") for line in log.splitlines()) == 4


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_line_is_labelled_with_rank_and_node(run_job, launcher):
    code, result, log, _ = run_job(launcher=launcher, command=("bash", "-c", "echo out; echo err >&2; printf 'no end'"))
    assert code == 0
    for rank, node in enumerate(["train-1", "train-1", "train-2", "train-2"]):
        assert [line for line in log.splitlines() if line.startswith(f"[{rank} ")] == [
            f"[{rank} {node}] out",
            f"[{rank} {node}] err",
            f"[{rank} {node}] no end",
        ]
    assert all(line.startswith("[") for line in log.splitlines())


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_line_is_in_the_log_as_soon_as_it_is_printed(tmp_path, launcher):
    program = 'echo here; until [ -e "$OUT/go" ]; do sleep 0.1; done'
    process = subprocess.Popen(**prepare(tmp_path, {}, {"launcher": launcher, "command": ("bash", "-c", program)}))
    wait_for(lambda: (tmp_path / "job" / "log.txt").read_text().count("] here") == 4)
    (tmp_path / "go").touch()
    assert process.wait(30) == 0


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_completed_job_leaves_its_result(run_job, launcher, tmp_path):
    _, result, _, _ = run_job(launcher=launcher, command=("true",))
    assert (tmp_path / "job" / "started").read_text().strip() == result["started_at"]
    assert result.pop("started_at") <= result.pop("ended_at")
    phases = [json.loads(line) for line in (tmp_path / "job" / "phases.jsonl").read_text().splitlines()]
    assert [each["name"] for each in phases][-4:] == ["running", "export", "ending", "end"]
    assert {(each["job"], each["run"]) for each in phases} == {("77", 0)}
    assert sorted(phases, key=lambda each: each["time_s"]) == phases
    assert result == {
        "job_id": "77",
        "exit_code": 0,
        "launcher": launcher,
        "nodes": 2,
        "world_size": 4,
        "node_list": ["train-1", "train-2"],
        "failed_rank": None,
        "failed_node": None,
        "reason": None,
    }


FAIL = 'import os, time\nif os.environ["RANK"] == "2":\n    raise ValueError("bad \\"seed\\" – 7")\ntime.sleep(60)\n'


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "srun"])
def test_the_rank_that_failed_is_named_with_its_traceback(run_job, launcher):
    started = time.monotonic()
    code, result, log, _ = run_job(launcher=launcher, command=("python", "-c", FAIL))
    assert time.monotonic() - started < stretched(15)
    assert (code, result["exit_code"], result["failed_rank"], result["failed_node"]) == (1, 1, 2, "train-2"), log
    assert result["reason"] == 'ValueError: bad "seed" – 7'
    assert log.splitlines()[-1] == 'error: rank 2 on train-2 exited with code 1: ValueError: bad "seed" – 7'


def test_a_traceback_that_torch_has_labelled_is_read(run_job):
    lines = ["Traceback (most recent call last):", '  File "x.py", line 2, in <module>', "ValueError: boom", ""]
    program = "".join(f"echo '[rank1]: {line}'\n" for line in lines) + 'echo later; [ "$RANK" != 1 ] || exit 1'
    _, result, _, _ = run_job(launcher="torchrun", command=("bash", "-c", program))
    assert (result["failed_rank"], result["reason"]) == (1, "ValueError: boom")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_exit_code_is_that_of_the_rank(run_job, launcher):
    program = 'if [ "$RANK" = 1 ]; then echo "last words"; exit 3; fi'
    code, result, log, _ = run_job(launcher=launcher, command=("bash", "-c", program))
    assert (code, result["exit_code"], result["failed_rank"], result["failed_node"]) == (3, 3, 1, "train-1"), log
    assert log.splitlines()[-1] == "error: rank 1 on train-1 exited with code 3: last words"


def test_a_rank_that_lost_its_peer_is_not_blamed(run_job):
    program = """
import os, sys, time
if os.environ["RANK"] == "0":
    raise RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4000")
if os.environ["RANK"] == "3":
    time.sleep(0.5)
    raise KeyError("the culprit")
"""
    _, result, log, _ = run_job(launcher="horovodrun", command=("python", "-c", program))
    assert (result["failed_rank"], result["reason"]) == (3, "KeyError: 'the culprit'"), log


def test_the_signal_that_killed_a_rank_is_named(run_job):
    _, result, _, _ = run_job(launcher="srun", command=("bash", "-c", 'echo fine; [ "$RANK" != 0 ] || kill -SEGV $$'))
    assert result["failed_rank"] == 0
    assert result["reason"].startswith("killed by SIGSEGV")


def test_two_nodes_of_one_address_are_refused_by_mpirun(tmp_path):
    job = prepare(tmp_path, {}, {"launcher": "mpirun", "command": ("true",)})
    (tmp_path / "stubs" / "getent").write_text('#!/usr/bin/env bash\necho "10.0.0.1 STREAM $2"\n')
    process = subprocess.run(**job, timeout=60, check=False)
    code, result, _, _ = finished(process.returncode, tmp_path / "job")
    assert code == 1
    assert "train-1 and train-2 have the same address 10.0.0.1" in result["reason"]


def test_labels_of_horovodrun_over_mpi_are_removed(tmp_path):
    """The forms of Open MPI 4 and 5."""
    program = "echo '[1,0]<stdout>:[0 train-1] four'; echo '[1,0]<stderr>: [0 train-1] five'; echo 'own'"
    job = prepare(tmp_path, {}, {"launcher": "horovodrun", "controller": "mpi", "command": ("true",)})
    (tmp_path / "stubs" / "horovodrun").write_text(f"#!/usr/bin/env bash\n{program}\n")
    process = subprocess.run(**job, timeout=60, check=False)
    _, _, log, _ = finished(process.returncode, tmp_path / "job")
    assert log.splitlines() == ["[0 train-1] four", "[0 train-1] five", "[launcher] own"]


def test_a_rank_that_left_an_elastic_job_early_is_named(tmp_path):
    """Horovod ends another rank, which waited for it (Horovod 0.28.1, gloo_run_elastic)."""
    job = prepare(tmp_path, {}, {"launcher": "horovodrun", "min_nodes": 1, "command": ("true",)})
    rank = "HOROVOD_RANK=3 HOROVOD_LOCAL_RANK=1 HOROVOD_SIZE=4 HOROVOD_CROSS_RANK=1 HOROVOD_HOSTNAME=train-2"
    ours = f"{rank} /usr/bin/python3 -IS {tmp_path}/job/lib/gpucluster_job rank bash -c 'exit 0'"
    program = f"env {ours}; echo 'process train-2[0] exited with code 137'; exit 1"
    (tmp_path / "stubs" / "horovodrun").write_text(f"#!/usr/bin/env bash\n{program}\n")
    process = subprocess.run(**job, timeout=60, check=False)
    _, result, log, _ = finished(process.returncode, tmp_path / "job")
    ended = "horovodrun exited with code 1: process train-2[0] exited with code 137"
    assert result["reason"] == f"{ended}; rank 3 on train-2 had exited with code 0", log


DISCOVER = Path(__file__).resolve().parents[3] / "templates" / "job" / "discover-hosts.sh"


@pytest.mark.parametrize(
    ("squeue", "expected"),
    [
        ("echo 'train-[1-2]'", (0, "train-1:2\ntrain-2:2\n")),
        ("true", (1, "")),  # an unknown job is no reason to release every node
        ("echo 'slurm_load_jobs error' >&2; exit 1", (1, "")),
    ],
)
def test_the_nodes_of_an_elastic_job_are_those_of_its_allocation(tmp_path, squeue, expected):
    for name, text in {"squeue": squeue, "scontrol": "printf 'train-1\\ntrain-2\\n'"}.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "77", "RANKS_PER_NODE": "2"}
    done = subprocess.run(["bash", str(DISCOVER)], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == expected


def test_a_missing_launcher_is_reported_as_the_reason(run_job, tmp_path):
    job = prepare(tmp_path, {}, {"launcher": "horovodrun", "command": ("true",)})
    (tmp_path / "stubs" / "horovodrun").unlink()
    process = subprocess.run(**job, timeout=60, check=False)
    code, result, log, _ = finished(process.returncode, tmp_path / "job")
    assert (code, result["exit_code"], result["failed_rank"]) == (127, 127, None)
    assert re.search("horovodrun exited with code 127: env: .horovodrun.: No such file", result["reason"])
    assert log.splitlines()[-1] == f"error: {result['reason']}"


def test_a_node_name_that_leads_to_localhost_is_refused(run_job, tmp_path):
    job = prepare(tmp_path, {}, {"command": ("true",)})
    (tmp_path / "stubs" / "getent").write_text('#!/usr/bin/env bash\necho "127.0.1.1 STREAM $2"\n')
    process = subprocess.run(**job, timeout=60, check=False)
    code, result, _, _ = finished(process.returncode, tmp_path / "job")
    assert code == 1
    assert result["reason"] == "the name train-1 leads to no address in the cluster's network (got '')"


def test_the_ranks_get_secrets_and_nothing_keeps_them(run_job, tmp_path):
    value = 's3cr\'et "$x"'
    program = 'import os; open(os.environ["OUT"] + "/got" + os.environ["RANK"], "w").write(os.environ["TOKEN"])'
    code, _, log, folder = run_job(secret={"TOKEN": value}, launcher="horovodrun", command=("python", "-c", program))
    assert code == 0, log
    assert [(tmp_path / f"got{rank}").read_text() for rank in range(4)] == [value] * 4
    assert not (folder / "secrets.sh").exists()
    for path in [*folder.rglob("*"), tmp_path / "stubs" / "calls"]:
        assert not path.is_file() or b"s3cr" not in path.read_bytes(), path
    assert json.loads((folder / "env.json").read_text()) == {"TOKEN": "***"}


def test_a_run_after_a_failed_one_does_not_start_without_its_secrets(tmp_path):
    """Somebody requeues the job, or its node finds only then that its GPU was broken."""
    job = prepare(tmp_path, {"TOKEN": "x"}, {"command": ("bash", "-c", "exit 3")})
    assert finished(subprocess.run(**job, timeout=60, check=False).returncode, tmp_path / "job")[0] == 3
    job["env"]["SLURM_RESTART_COUNT"] = "1"
    code, result, _, _ = finished(subprocess.run(**job, timeout=60, check=False).returncode, tmp_path / "job")
    assert code == 1
    assert result["reason"] == "the values of TOKEN were removed when an earlier run failed: submit the job again"


def test_the_secrets_file_is_for_its_owner_alone(tmp_path):
    prepare(tmp_path, {"TOKEN": "x"}, {"command": ("true",)})
    assert stat.S_IMODE((tmp_path / "job" / "secrets.sh").stat().st_mode) == 0o600


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_a_cancelled_job_ends_every_rank_and_says_so(tmp_path, launcher):
    program = 'trap "" TERM; echo $$ >"$OUT/pid$RANK"; while :; do sleep 1; done'
    job = prepare(tmp_path, {}, {"launcher": launcher, "command": ("bash", "-c", program)})
    process = subprocess.Popen(**job)
    wait_for(lambda: len(list(tmp_path.glob("pid*"))) == 4)
    process.send_signal(signal.SIGTERM)
    code = process.wait(30)
    _, result, log, _ = finished(code, tmp_path / "job")
    assert code != 0
    assert result["reason"] == "cancelled"
    assert log.splitlines()[-1] == "error: cancelled"
    pids = [path.read_text().strip() for path in tmp_path.glob("pid*")]
    wait_for(lambda: not any(map(alive, pids)))  # killed, and perhaps a zombie


# On real nodes each rank gets it once; here each node's search finds both nodes' processes.
CHECKPOINTS = """
import os, signal, time
def handle(number, frame):
    open(os.environ["OUT"] + "/got" + os.environ["RANK"], "w").write(signal.Signals(number).name)
signal.signal(signal.SIGUSR1, handle)
open(os.environ["OUT"] + "/up" + os.environ["RANK"], "w")
while not os.path.exists(os.environ["OUT"] + "/got" + os.environ["RANK"]): time.sleep(0.05)
time.sleep(1)
"""
IN_BASH = """
trap 'echo SIGUSR1 >"$OUT/got$RANK"' USR1; touch "$OUT/up$RANK"
until [ -e "$OUT/got$RANK" ]; do sleep 0.1 & wait $! || true; done; sleep 1
"""


@pytest.mark.parametrize("launcher", ["torchrun", "horovodrun", "mpirun", "srun"])
@pytest.mark.parametrize("command", [("python", "-c", CHECKPOINTS), ("bash", "-c", IN_BASH)], ids=["python", "bash"])
def test_the_programs_of_all_ranks_get_the_signal_and_nothing_else_does(tmp_path, launcher, command):
    wanted = {"launcher": launcher, "command": command, "signal": "USR1@60", "time": "1:00:00"}
    process = subprocess.Popen(**prepare(tmp_path, {}, wanted))
    wait_for(lambda: len(list(tmp_path.glob("up*"))) == 4)
    process.send_signal(signal.SIGUSR1)  # as Slurm does for B:USR1
    assert process.wait(30) == 0, (tmp_path / "job" / "log.txt").read_text()
    assert [(tmp_path / f"got{rank}").read_text().strip() for rank in range(4)] == ["SIGUSR1"] * 4
    assert (
        "[launcher] sending SIGUSR1 to the ranks: the job is about to be stopped"
        in (tmp_path / "job" / "log.txt").read_text()
    )


@pytest.mark.parametrize(("min_nodes", "reason"), [(None, "lost the node train-2"), (1, "cancelled")])
def test_a_job_that_lost_a_node_was_not_cancelled_unless_it_is_elastic(tmp_path, min_nodes, reason):
    """An elastic job continues after the loss, and a user may cancel it hours later."""
    program = 'echo "srun: error: Node failure on train-2" >&2; touch "$OUT/up"; exec sleep 60'
    job = prepare(tmp_path, {}, {"launcher": "horovodrun", "command": ("true",), "min_nodes": min_nodes})
    (tmp_path / "stubs" / "horovodrun").write_text(f"#!/usr/bin/env bash\n{program}\n")
    process = subprocess.Popen(**job)
    wait_for(lambda: (tmp_path / "up").exists())
    process.send_signal(signal.SIGTERM)
    code = process.wait(30)
    _, result, log, _ = finished(code, tmp_path / "job")
    assert result["reason"] == reason
    assert log.splitlines()[-1] == f"error: {reason}"


@pytest.mark.parametrize(
    ("failure", "squeue", "ranks", "code"),
    [
        ("kill -ABRT $$", "train-1", ["4", "2"], 0),
        ("echo gloo: Connection reset by peer; exit 1", "train-1", ["4", "2"], 0),
        ("echo boom; exit 3", "train-1", ["4"], 3),  # the program's own error
        ("kill -ABRT $$", "train-[1-2]", ["4"], 134),  # no node is lost
        ("kill -ABRT $$", "train-2", ["4"], 134),  # horovodrun ran on the lost node
        ("kill -ABRT $$", "", ["4"], 134),  # Slurm does not answer
    ],
)
def test_an_elastic_job_that_lost_a_node_while_its_ranks_started_starts_them_again(
    tmp_path, failure, squeue, ranks, code
):
    """horovodrun's part is played: it starts one rank of ours, and ends with 1 if that failed."""
    wanted = {"launcher": "horovodrun", "nodes": 2, "ntasks_per_node": 2, "min_nodes": 1}
    program = f'[ -e "$OUT/again" ] || {{ touch "$OUT/again"; {failure}; }}; echo trained'
    job = prepare(tmp_path, {}, wanted | {"command": ("bash", "-c", program)})
    change(tmp_path, "elastic.py", "NOTICED_S = 20.0", "NOTICED_S = 0.5")
    stubs = tmp_path / "stubs"
    (stubs / "horovodrun").write_text(
        '#!/usr/bin/env bash\nwhile [ "$1" != --elastic-timeout ]; do\n'
        '  [ "$1" != -np ] || echo "$2" >>"$OUT/ranks"\n'
        '  [ "$1" != --network-interfaces ] || echo "$2" >>"$OUT/interfaces"; shift; done\nshift 2\n'
        "HOROVOD_RANK=0 HOROVOD_LOCAL_RANK=0 HOROVOD_SIZE=2 HOROVOD_CROSS_RANK=0 HOROVOD_HOSTNAME=train-1"
        ' "$@" || exit 1\n'
    )
    (stubs / "squeue").write_text(f"#!/usr/bin/env bash\necho '{squeue}'\n")
    (stubs / "squeue").chmod(0o755)
    with (stubs / "scontrol").open("a") as scontrol:
        scontrol.write('case $* in "show hostnames train-"[12]) echo "$3" ;; esac\n')
    found, result, log, _ = finished(subprocess.run(**job, timeout=60, check=False).returncode, tmp_path / "job")
    assert (tmp_path / "ranks").read_text().split() == ranks, log
    assert (tmp_path / "interfaces").read_text().split() == ["ens5", "lo"][: len(ranks)]
    assert (found, result["exit_code"], result["node_list"]) == (
        code, code, ["train-1"] if len(ranks) == 2 else ["train-1", "train-2"],
    ), log  # fmt: skip
    assert ("[launcher] lost train-2: the ranks start again on 1 node\n" in log) == (len(ranks) == 2)


@pytest.mark.parametrize(
    ("run", "seconds", "reason"),
    [
        (0, 40, "train-2 was lost: spot: EC2 will terminate it at {at}"),
        (0, -3, "train-2 was lost: spot: EC2 will terminate it at {at}"),
        (0, 100, "cancelled"),
        (1, 40, "cancelled"),
    ],
)
def test_a_job_whose_spot_node_ends_says_so(tmp_path, run, seconds, reason):
    """In one case a user cancelled it 100 s before the end; run 1 is another case."""
    at = f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
    job = prepare(tmp_path, {}, {"launcher": "srun", "command": ("bash", "-c", 'touch "$OUT/up"; sleep 60')})
    comment = f"run {run}: train-2 was lost: spot: EC2 will terminate it at {at}"
    shown = f"JobId={job['env']['SLURM_JOB_ID']} JobState=COMPLETING Restarts=0 AdminComment={comment} StdErr=/x"
    scontrol = tmp_path / "stubs" / "scontrol"
    scontrol.write_text(scontrol.read_text() + f'[ "$1" != --oneliner ] || printf "{shown}\\n"\n')
    process = subprocess.Popen(**job)
    wait_for(lambda: (tmp_path / "up").exists())
    process.send_signal(signal.SIGTERM)
    _, result, log, _ = finished(process.wait(30), tmp_path / "job")
    assert result["reason"] == reason.format(at=at)
    assert log.splitlines()[-1] == f"error: {result['reason']}"


@pytest.mark.parametrize(
    ("runs_before", "restarts", "kept"), [("", 0, False), ("", 1, True), ("1", 1, False), ("1", 2, True)]
)
def test_a_requeued_job_gets_its_secrets_again(tmp_path, runs_before, restarts, kept):
    program = 'touch "$OUT/up"; sleep 60'
    job = prepare(tmp_path, {"TOKEN": "x"}, {"launcher": "srun", "command": ("bash", "-c", program)})
    if runs_before:
        job["env"]["SLURM_RESTART_COUNT"] = runs_before
    shown = f"JobId={job['env']['SLURM_JOB_ID']} JobState=COMPLETING Requeue=1 Restarts={restarts} BatchFlag=1"
    scontrol = tmp_path / "stubs" / "scontrol"
    scontrol.write_text(
        scontrol.read_text()
        + f'[ "$*" != "--oneliner show job $SLURM_JOB_ID" ] || printf "JobId=9 Restarts=8 \\n{shown}\\n"\n'
    )
    process = subprocess.Popen(**job)
    wait_for(lambda: (tmp_path / "up").exists())
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    assert (tmp_path / "job" / "secrets.sh").exists() == kept


def test_a_job_that_fails_while_its_node_requeues_it_keeps_its_secrets(tmp_path):
    """The node requeues it because a GPU is broken, and the program on the GPU fails at once."""
    job = prepare(tmp_path, {"TOKEN": "x"}, {"launcher": "srun", "command": ("bash", "-c", "exit 3")})
    shown = f"JobId={job['env']['SLURM_JOB_ID']} JobState=COMPLETING Requeue=1 Restarts=1 BatchFlag=1"
    with (tmp_path / "stubs" / "scontrol").open("a") as file:
        file.write(f'[ "$*" != "--oneliner show job $SLURM_JOB_ID" ] || echo "{shown}"\n')
    assert subprocess.run(**job, timeout=60, check=False).returncode == 3
    assert (tmp_path / "job" / "secrets.sh").exists()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_signal_to_every_process_of_the_job_writes_one_result(tmp_path, launcher):
    """Slurm ends a job like this: it signals all processes on the first node at once, also between fork and exec."""
    job = prepare(
        tmp_path, {}, {"launcher": launcher, "command": ("bash", "-c", 'touch "$OUT/up$RANK"; exec sleep 60')}
    )
    process = subprocess.Popen(**job, start_new_session=True)
    wait_for(lambda: list(tmp_path.glob("up*")))
    os.killpg(process.pid, signal.SIGTERM)
    code = process.wait(30)
    _, result, log, _ = finished(code, tmp_path / "job")
    assert code == result["exit_code"] != 0
    assert (result["reason"], log.count("error: cancelled")) == ("cancelled", 1), log


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_programs_output_cannot_fake_the_record_of_a_rank(run_job, launcher):
    lies = [
        "[0 x] exited with code 1", "[0 x] exited with code 9 at 1.0: not me", "srun: error: Node failure on train-2",
        "slurmstepd: error: *** JOB 77 ON train-1 CANCELLED AT 2026-11-22T12:00:00 DUE TO TIME LIMIT ***",
    ]  # fmt: skip
    said = "; ".join(f"echo '{each}'" for each in lies)
    code, result, log, _ = run_job(launcher=launcher, command=("bash", "-c", f'{said}; [ "$RANK" != 3 ] || exit 4'))
    assert (code, result["failed_rank"], result["failed_node"]) == (4, 3, "train-2"), log
    assert log.splitlines()[-1] == f"error: rank 3 on train-2 exited with code 4: {lies[-1]}"


def test_a_rank_has_one_process_beside_its_program(tmp_path):
    program = 'echo $$ >"$OUT/new$RANK"; mv "$OUT/new$RANK" "$OUT/pid$RANK"; until [ -e "$OUT/go" ]; do sleep 0.1; done'
    process = subprocess.Popen(**prepare(tmp_path, {}, {"launcher": "srun", "command": ("bash", "-c", program)}))
    wait_for(lambda: len(list(tmp_path.glob("pid*"))) == 4)
    programs = {int(path.read_text()) for path in tmp_path.glob("pid*")}
    (srun,) = {parent(parent(each)) for each in programs}
    beside = {child for child in children(srun) if child not in programs}
    assert len(beside) == 4
    assert {child for each in beside for child in children(each)} == programs
    (tmp_path / "go").touch()
    assert process.wait(30) == 0


def parent(pid):
    return int(Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])


def children(pid):
    return set(map(int, Path("/proc", str(pid), "task", str(pid), "children").read_text().split()))


def test_a_full_disk_for_the_log_does_not_fail_the_job(tmp_path):
    job = prepare(tmp_path, {}, {"launcher": "srun", "command": ("bash", "-c", "echo x; exit $((RANK == 1 ? 3 : 0))")})
    job["args"][-1] = "/dev/full"
    process = subprocess.run(**job, timeout=60, check=False)
    result = json.loads((tmp_path / "job" / "result.json").read_text())
    assert (process.returncode, result["failed_rank"], result["reason"]) == (3, 1, "x")


@pytest.mark.parametrize(
    ("text", "mode", "code", "reason"),
    [
        ("echo as a shell has it; exit 5", 0o755, 5, "as a shell has it"),
        ("echo x", 0o644, 126, "./program: Permission denied"),
        (None, 0, 127, "./program: not found"),
        (
            "#!/bin/bash\r\necho x\r\n", 0o755, 127,
            "./program: its first line '#!/bin/bash\\r' names an interpreter that does not exist: its lines end with "
            "\\r\\n as on Windows; convert it, for example with dos2unix",
        ),
        (
            "#! /opt/none/python3 -u\nprint(1)\n", 0o755, 127,
            "./program: its first line '#! /opt/none/python3 -u' names an interpreter that does not exist on this node",
        ),
        (
            "#!/etc/passwd\n", 0o755, 126,
            "./program: its first line '#!/etc/passwd' names an interpreter that cannot be executed: Permission denied",
        ),
    ],
    ids=["no interpreter line", "not executable", "missing", "windows", "no interpreter", "no program"],
)  # fmt: skip
def test_a_program_that_cannot_be_executed_fails_as_in_a_shell(tmp_path, text, mode, code, reason):
    job = prepare(tmp_path, {}, {"launcher": "srun", "command": ("./program",)})
    if text:
        (tmp_path / "job/code/program").write_text(text, newline="")
        (tmp_path / "job/code/program").chmod(mode)
    process = subprocess.run(**job, timeout=60, check=False)
    _, result, log, _ = finished(process.returncode, tmp_path / "job")
    assert (result["exit_code"], result["reason"]) == (code, reason), log


def test_processes_that_a_rank_leaves_behind_are_killed(tmp_path, run_job):
    program = "sleep 300 & echo $! >$OUT/left$RANK"
    started = time.monotonic()
    code, _, _, _ = run_job(launcher="srun", command=("bash", "-c", program))
    assert code == 0
    assert time.monotonic() - started < stretched(15)
    for path in tmp_path.glob("left*"):
        assert not alive(path.read_text().strip()), path.name


def test_two_jobs_on_a_node_have_different_ports(tmp_path):
    program = 'echo $MASTER_PORT >"$OUT/port"; until [ -e "$OUT/go" ]; do sleep 0.1; done'
    jobs, ports = [], []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        job = prepare(tmp_path / name, {}, {"launcher": "srun", "command": ("bash", "-c", program)})
        jobs.append(subprocess.Popen(**job))
        port = tmp_path / name / "port"
        wait_for(lambda port=port: port.exists() and port.read_text().strip())
        ports.append(int(port.read_text()))
    for name in ("a", "b"):
        (tmp_path / name / "go").touch()
    assert [job.wait(30) for job in jobs] == [0, 0]
    assert ports[0] != ports[1]
    assert all(20000 <= port < 30000 for port in ports)


MEMORY = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def small_memory(tmp_path):
    """A control group with 50 MB; the kernel really kills a process that needs more."""
    group = MEMORY / f"gpucluster-{tmp_path.name}-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group of memory can be made here: {error}")
    (group / "memory.limit_in_bytes").write_text("50M")
    yield group
    group.rmdir()


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_a_rank_that_ran_out_of_memory_is_named(run_job, small_memory, launcher):
    grow = f"""
import os
print("step 7", flush=True)
if os.environ["RANK"] == "2":
    open({str(small_memory / "cgroup.procs")!r}, "w").write("0")
    held = [bytearray(1000000) for _ in range(1000)]
"""
    code, result, log, _ = run_job(launcher=launcher, command=("python", "-c", grow))
    reason = "out of memory: the kernel killed it, last line: step 7"
    assert (result["failed_rank"], result["failed_node"], result["reason"]) == (2, "train-2", reason), log
    assert result["exit_code"] == 137
