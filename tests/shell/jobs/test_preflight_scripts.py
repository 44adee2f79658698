"""The checks before a job's command starts: two nodes that are processes of this machine, some of them faulty."""

from __future__ import annotations

import json
import os
import subprocess
import time

import pytest
from stubbed_jobs import HERE, SRUN, change, finished, prepare

from localcloud.testing.patience import stretched
from localcloud.testing.recorded import recorded

# Answers of a g5.12xlarge; a test makes one node faulty with `case $SLURMD_NODENAME`.
HEALTHY = {
    "nvidia-smi": 'for gpu in 0 1 2 3; do echo "$gpu, 0"; done',
    "fi_info": recorded("fi_info/efa-libfabric2.6.txt"),
}
ON_2 = '[ "$SLURMD_NODENAME" = train-2 ] && '


@pytest.fixture
def run(tmp_path):
    """run(stubs={program: bash}, **keys of the spec) -> (exit code, result, log, folder)."""

    def start(stubs=None, before=None, **keys):
        job = prepare(tmp_path, {}, {"command": ("echo", "started"), "preflight": "quick", "launcher": "srun"} | keys)
        for name, text in (HEALTHY | (stubs or {})).items():
            path = tmp_path / "stubs" / name
            path.write_text(f"#!/usr/bin/env bash\n{text}\n")
            path.chmod(0o755)
        (tmp_path / "stubs" / "getent").write_text(HERE)
        expected = tmp_path / "job" / "preflight" / "expected.json"
        expected.write_text(json.dumps(json.loads(expected.read_text()) | {"mounts": ["/"]}))
        (tmp_path / "84-preflight").touch()
        change(tmp_path, "preflight/broken_nodes.py", "/opt/gpucluster/epilog.d", str(tmp_path))
        if before:
            before(tmp_path)
        process = subprocess.run(**job, timeout=60, check=False)
        return finished(process.returncode, tmp_path / "job")

    return start


def said(log: str) -> list[str]:
    return [line.removeprefix("[preflight] ") for line in log.splitlines() if line.startswith("[preflight] ")]


@pytest.mark.parametrize("launcher", ["torchrun", "horovodrun", "srun"])
def test_healthy_nodes_are_reported_in_one_line_and_the_job_runs(run, launcher):
    code, result, log, _ = run(launcher=launcher)
    assert code == 0, log
    assert log.count("] started") == result["world_size"] == 4
    (line,) = said(log)
    assert line.startswith("2 nodes, 4 GPUs each, 1 EFA interface each, clocks within "), line
    assert "they reach each other" in line
    preflight = result["preflight"]
    assert preflight.pop("seconds") < stretched(5)
    assert preflight == {"level": "quick", "errors": [], "warnings": []}


def test_the_preflight_can_be_turned_off(run):
    code, result, log, _ = run(preflight="off", stubs={"nvidia-smi": "exit 1"})
    assert (code, said(log)) == (0, [])
    assert "preflight" not in result


LOST_GPU = {"nvidia-smi": ON_2 + "rest='' || rest='3, 0'; printf '0, 0\\n1, 0\\n2, 0\\n%s\\n' \"$rest\""}
LOST = "train-2 has 3 of the 4 GPUs that the job asks for"
# scontrol of Slurm 23.11 and 24.11 prints `Requeue=%u Restarts=%u BatchFlag=%u` (scontrol/info_job.c).
SHOWN = "JobId=77 JobName=x JobState={state} Requeue={requeue} Restarts=0 BatchFlag=1"
DRAINED = "when this job has left train-2, Slurm drains and replaces it"


def slurm(requeue=1, state="RUNNING Reason=None", refuses=""):
    """Notes what is asked of it."""
    shown = SHOWN.format(state=state, requeue=requeue)
    refused = f'echo "{refuses}"; exit 1' if refuses else ""
    return f"""case $* in
  "show hostnames train-[1-2]") printf 'train-1\\ntrain-2\\n' ;;
  "--oneliner show job 77") echo "{shown}" ;;
  requeue*) echo "scontrol $*" >>"$STUBS/calls"; {refused or ":"} ;;
  update*) echo "scontrol $*" >>"$STUBS/calls" ;;
esac"""


def asked_of(tmp_path):
    return [line for line in (tmp_path / "stubs/calls").read_text().splitlines() if line.startswith("scontrol")]


@pytest.mark.skipif(len(os.sched_getaffinity(1)) < 2, reason="this machine has one CPU")
def test_a_node_whose_job_may_use_a_part_of_its_cpus_is_named_and_the_job_runs(run):
    """The second node's tasks may use one CPU of this machine, as if a control group confined them."""
    confined = f"$([ $((task / per_node)) = 0 ] || echo taskset -c {min(os.sched_getaffinity(0))}) "
    code, result, log, _ = run(stubs={"srun": SRUN.replace('"$@" &', confined + '"$@" &')})
    assert code == 0 and "started" in log, log
    (text,) = result["preflight"]["warnings"]
    assert text.startswith(
        f"the job may use only 1 of the {len(os.sched_getaffinity(1))} CPUs of train-2: data loaders"
    )
    assert f"warning: {text}" in said(log)


def test_a_node_that_lost_a_gpu_is_drained_and_the_job_runs_elsewhere(run, tmp_path):
    def leave(tmp_path):
        """What an earlier run found on a node that was lost before its epilog."""
        (tmp_path / "job/preflight/broken-77-train-1").write_text("it is another instance now")
        (tmp_path / "job/secrets.sh").touch()

    code, result, log, folder = run(stubs=LOST_GPU | {"scontrol": slurm()}, before=leave)
    assert (code, result["exit_code"], result["failed_node"], result["failed_rank"]) == (1, 1, "train-2", None), log
    assert result["reason"] == LOST
    assert "started" not in log and DRAINED in said(log)
    assert log.splitlines()[-2:] == [
        f"error: {LOST}",
        "[launcher] the job is requeued and runs on other nodes, for this reason 1 of at most 3 times",
    ]
    assert {path.name: path.read_text() for path in (folder / "preflight").glob("broken-*")} == {
        "broken-77-train-2": f"{LOST}\n"  # bootstrap/programs/epilog.d/84-preflight reads it
    }
    assert asked_of(tmp_path) == ["scontrol requeue 77", "scontrol update JobId=77 StartTime=now+20"]
    assert (folder / "secrets.sh").exists(), "the next run needs them"


@pytest.mark.parametrize(
    ("scontrol", "earlier", "why"),
    [
        (slurm(requeue=0), 0, "the job was submitted with --no-requeue: no further run follows"),
        (slurm(), 3, "4 runs of this job have found broken nodes: no further run follows"),
        (slurm(state="COMPLETING Reason=None"), 0, "Slurm is ending the job, but not at its time limit: no further"),
        (slurm(refuses="Unable to contact slurm controller"), 0, "Slurm did not requeue the job: no further run"),
    ],
    ids=["no-requeue", "too often", "cancelled", "no answer"],
)
def test_a_job_that_is_not_requeued_says_why_and_its_node_is_drained(run, scontrol, earlier, why):
    def leave(tmp_path):
        (tmp_path / "job/preflight/requeues-77").write_text("." * earlier)
        (tmp_path / "job/secrets.sh").touch()

    code, result, log, folder = run(stubs=LOST_GPU | {"scontrol": scontrol}, before=leave)
    assert (code, result["reason"]) == (1, LOST), log
    assert log.splitlines()[-1].startswith(f"[launcher] {why}")
    assert (folder / "preflight/broken-77-train-2").exists() and not (folder / "secrets.sh").exists()


def test_a_node_that_booted_before_an_update_is_left_to_an_administrator(run, tmp_path):
    """The job's runtime is newer than the node's programs, which do not read it."""
    epilog = tmp_path / "84-preflight"
    code, result, log, folder = run(stubs=LOST_GPU | {"scontrol": slurm()}, before=lambda tmp_path: epilog.unlink())
    assert (code, result["reason"]) == (1, LOST), log
    assert "train-2 booted before an update, so no epilog drains it:" in said(log)
    assert "an administrator's `gpucluster doctor --node train-2` tests it" in log
    assert not list((folder / "preflight").glob("broken-*")) and asked_of(tmp_path) == []


def test_a_cluster_that_we_did_not_build_drains_nothing(run, tmp_path):
    def elsewhere(tmp_path):
        path = tmp_path / "job/preflight/expected.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"then": "tell the cluster's administrators"}))

    code, result, log, folder = run(stubs=LOST_GPU | {"scontrol": slurm()}, before=elsewhere)
    assert (code, result["reason"]) == (1, f"{LOST}: tell the cluster's administrators")
    assert log.splitlines()[-1] == f"error: {result['reason']}"
    assert not list((folder / "preflight").glob("broken-*")) and asked_of(tmp_path) == []


def test_a_job_that_asks_for_fewer_gpus_may_run_there(run):
    code, _, log, _ = run(gpus_per_node=2, stubs={"nvidia-smi": "printf '0, 0\\n1, 0\\n'"})
    assert code == 0, log


NO_EFA = 'echo "fi_getinfo: -61 (No data available)" >&2; exit 61'


def test_without_efa_the_job_is_warned(run):
    code, result, log, _ = run(stubs={"fi_info": ON_2 + "{ " + NO_EFA + "; }; " + HEALTHY["fi_info"]})
    assert code == 0
    (warning,) = result["preflight"]["warnings"]
    assert warning.startswith("the EFA interfaces of train-2 are 0, expected 1: NCCL may use TCP")
    assert f"warning: {warning}" in said(log)


def test_without_efa_a_job_that_requires_it_does_not_start(run):
    """If no node has it, the job may be the cause: none is replaced."""
    code, result, log, folder = run(efa="required", stubs={"fi_info": NO_EFA})
    assert (code, result["failed_node"]) == (1, "train-1")
    assert "started" not in log and not list((folder / "preflight").glob("broken-*"))
    assert "are 0, expected 1, and the job has efa: required" in result["reason"]


def test_a_jobs_own_libfabric_does_not_hide_the_interfaces(run):
    """FI_PROVIDER limits libfabric to that provider (its src/fabric.c: fi_ini)."""
    own = {"FI_PROVIDER": "tcp", "LD_LIBRARY_PATH": "/home/ubuntu/libfabric-without-efa/lib"}
    hidden = '[ -z "$FI_PROVIDER$LD_LIBRARY_PATH" ] || { ' + NO_EFA + "; }; "
    code, _, log, _ = run(efa="required", env=own, stubs={"fi_info": hidden + HEALTHY["fi_info"]})
    assert code == 0, log


@pytest.mark.parametrize(
    ("stubs", "warning"),
    [
        ({"nvidia-smi": recorded("nvidia-smi/no-driver.txt") + "; exit 9"}, "the GPUs of train-1 could not be counted"),
        ({"nvidia-smi": "exec /nowhere/nvidia-smi"}, "the GPUs of train-1 could not be counted"),
        ({"nvidia-smi": "printf '0, 0\\n1, 7\\n2, 0\\n3, 0\\n'"}, "GPU 1 of train-1 has uncorrected memory errors"),
        ({"nvidia-smi": "printf '0, [N/A]\\n1, [N/A]\\n2, [N/A]\\n3, [N/A]\\n'"}, None),
        ({"fi_info": "exec /nowhere/fi_info"}, "the EFA interfaces of train-1 could not be counted"),
        ({"fi_info": "exit 1"}, "the EFA interfaces of train-1 could not be counted"),
    ],
)  # fmt: skip
def test_a_check_that_cannot_run_does_not_fail_the_job(run, stubs, warning):
    code, result, log, _ = run(stubs=stubs)
    assert code == 0, log
    assert [text for text in result["preflight"]["warnings"] if warning and text.startswith(warning)] or warning is None
    assert warning or result["preflight"]["warnings"] == []


def test_a_node_whose_check_dies_does_not_fail_the_job(run, tmp_path):
    broken = "import os\nif os.environ.get('SLURM_NODEID') == '1': raise SystemExit('no python here')\n"
    job = prepare(tmp_path, {}, {"command": ("echo", "started"), "preflight": "quick", "launcher": "srun"})
    change(tmp_path, "preflight/probe.py", "MEETING_S = 90.0", "MEETING_S = 1.0")
    change(tmp_path, "preflight/probe.py", "def main", f"{broken}\ndef main")
    (tmp_path / "stubs" / "getent").write_text(HERE)
    process = subprocess.run(**job, timeout=60, check=False)
    code, result, log, _ = finished(process.returncode, tmp_path / "job")
    assert code == 0, log
    assert log.count("] started") == 4
    assert any(text.startswith("train-2 could not be checked") for text in result["preflight"]["warnings"])


def test_a_single_node_is_checked_without_slurm(run, tmp_path):
    scontrol = '[ "$2" = hostnames ] && echo train-1'
    code, result, log, _ = run(nodes=1, stubs={"scontrol": scontrol})
    assert code == 0, log
    assert said(log)[0].startswith("1 node, 4 GPUs each (")
    assert "probe" not in (tmp_path / "stubs" / "calls").read_text()


EFA_REPORT = """
echo "NCCL version 2.27.7+cuda12.9" >"$file"
echo "h:1:1 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 1 nics)" >>"$file"
echo "h:1:1 [0] NCCL INFO Using network Libfabric" >>"$file"
"""
TCP_REPORT = 'echo "h:1:1 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so." >"$file"; ' + (
    'echo "h:1:1 [0] NCCL INFO Using network Socket" >>"$file"\n'
)
FILE = 'file=${NCCL_DEBUG_FILE/\\%p/$$}; [ "$NCCL_DEBUG" = INFO ] || exit 9\n'


def command(text: str) -> tuple[str, ...]:
    return ("bash", "-c", FILE + text)


def test_nccl_over_efa_is_reported(run):
    code, result, log, _ = run(command=command(EFA_REPORT + "sleep 3"))
    assert code == 0, log
    assert result["nccl"] == {
        "networks": {"efa": 4}, "interfaces": 1, "version": "2.27.7+cuda12.9", "others": [], "level": "ok",
        "text": "NCCL's network is efa on 4 ranks",
    }  # fmt: skip
    assert said(log).count("NCCL's network is efa on 4 ranks") == 1


def test_nccl_over_tcp_causes_a_prominent_warning(run):
    code, result, log, _ = run(command=command(f'[ "$RANK" = 3 ] && {{ {TCP_REPORT} }} || {{ {EFA_REPORT} }}'))
    assert code == 0, log
    assert result["nccl"]["networks"] == {"efa": 3, "Socket": 1}
    assert (result["nccl"]["level"], result["nccl"]["others"]) == ("warning", [3])
    assert any("rank 3 does not use EFA" in line for line in said(log))


def test_nccl_over_tcp_ends_a_job_that_requires_efa(run):
    started = time.monotonic()
    code, result, log, _ = run(efa="required", command=command(TCP_REPORT + "exec sleep 50"))
    assert time.monotonic() - started < stretched(30)
    assert code != 0, log
    assert result["exit_code"] != 0
    assert "does not use EFA" in result["reason"]
    assert "efa: required" in result["reason"]


def test_nccl_over_tcp_fails_a_short_job_that_requires_efa(run):
    code, result, log, _ = run(efa="required", command=command(TCP_REPORT))
    assert (code, result["exit_code"]) == (1, 1), log
    assert "does not use EFA" in result["reason"]


def test_a_report_that_the_user_wants_in_the_log_is_read_there(run):
    line = "echo 'h:1:1 [0] NCCL INFO Using network Socket'; sleep 3"
    code, result, log, folder = run(env={"NCCL_DEBUG": "INFO"}, command=("bash", "-c", line))
    assert code == 0, log
    assert result["nccl"]["networks"] == {"Socket": 4}
    assert not list((folder / "nccl").iterdir())


def test_a_rank_in_a_smaller_world_is_refused(run):
    rank = 'exec /usr/bin/python3 -IS "$GPUCLUSTER_JOB_DIR/lib/gpucluster_job" rank true'
    alone = f"RANK=0 LOCAL_RANK=0 GROUP_RANK=$SLURM_NODEID WORLD_SIZE=1 {rank}"
    code, result, log, _ = run(launcher="torchrun", stubs={"torchrun": alone})
    assert code == 1, log
    assert "this rank got a world size of 1, expected 2 nodes x 2 ranks = 4" in result["reason"]
    assert result["failed_node"] in ("train-1", "train-2")


def pretended(program: str):
    """Replaces the all-reduce by its output."""

    def write(tmp_path):
        (tmp_path / "job" / "lib" / "gpucluster_job" / "preflight" / "allreduce.py").write_text(
            f"import json, os, sys\nrank = os.environ['RANK']\n{program}\n"
        )

    return write


PRINTS_BANDWIDTH = """
measured = {'framework': 'torch, nccl', 'ranks': 4, 'bytes': 2**30, 'busbw_gb_per_s': 3.5}
if rank == '0': print(json.dumps(measured))
"""


@pytest.mark.parametrize("launcher", ["torchrun", "horovodrun", "srun"])
def test_full_measures_through_the_launcher_before_the_job_starts(run, launcher):
    code, result, log, folder = run(launcher=launcher, preflight="full", before=pretended(PRINTS_BANDWIDTH))
    assert code == 0, log
    assert log.count("] started") == 4
    assert said(log)[1].startswith("torch, nccl, 4 ranks: 3.5 GB/s bus bandwidth at 1 GiB; no published figure for")
    assert result["preflight"]["measured"]["framework"]["busbw_gb_per_s"] == 3.5
    assert "[0 train-1] {" in (folder / "preflight" / "allreduce.txt").read_text()


def test_full_says_which_rank_failed_and_does_not_start_the_job(run):
    program = "if rank == '3': raise RuntimeError('NCCL error: unhandled system error')"
    code, result, log, _ = run(preflight="full", before=pretended(program))
    assert (code, result["failed_node"]) == (1, "train-2"), log
    assert "started" not in log
    assert result["reason"].endswith("failed on rank 3 (train-2): RuntimeError: NCCL error: unhandled system error")


def test_full_replaces_both_nodes_whose_ranks_sum_wrongly(run, tmp_path):
    """The program without torch: its numbers are wrong."""

    def before(tmp_path):
        numbers = "type('', (), {'rank': 0, 'world': 4, 'wrong': lambda self: compare(10.0, 11.0, 4)})()"
        change(tmp_path, "preflight/allreduce.py", "    main()\n", f"    _measure({numbers}, 'torch, nccl')\n")

    code, result, log, folder = run(preflight="full", stubs={"scontrol": slurm()}, before=before)
    wrong = "a sum of the ranks on train-1 and train-2 is wrong, so one of the two nodes is broken"
    assert (code, result["failed_node"]) == (1, None), log
    assert result["reason"] == f"{wrong}: an all-reduce over 4 ranks gave numbers from 10 to 11, expected 10"
    assert "when this job has left train-1 and train-2, Slurm drains and replaces them" in said(log)
    found = {path.name: path.read_text() for path in (folder / "preflight").glob("broken-*")}
    assert found == {f"broken-77-train-{number}": f"{wrong}\n" for number in (1, 2)}
    assert asked_of(tmp_path)[0] == "scontrol requeue 77"


def test_full_says_that_an_all_reduce_hung(run):
    def write(tmp_path):
        pretended("import time\nprint('waiting for the others', flush=True)\ntime.sleep(50)")(tmp_path)
        change(tmp_path, "preflight/checks.py", "FULL_S = 300.0", "FULL_S = 3.0")

    code, result, log, _ = run(preflight="full", before=write)
    assert code == 1 and "started" not in log, log
    assert "an all-reduce in the job's framework did not end within its five minutes: " in result["reason"]


def test_nccls_report_on_the_preflights_all_reduce_is_not_the_jobs(run):
    report = "h:1:1 [0] NCCL INFO Using network AWS Libfabric"
    file = "os.environ.get('NCCL_DEBUG_FILE', '/dev/null').replace('%p', '!')"
    said = f"open({file}, 'w').write('{report}')"
    own = "echo 'h:1:1 [0] NCCL INFO Using network Socket' >${NCCL_DEBUG_FILE:-/dev/null}; sleep 3"
    before = pretended(said + PRINTS_BANDWIDTH)
    code, result, log, _ = run(preflight="full", before=before, command=("bash", "-c", own))
    assert code == 0, log
    assert result["nccl"]["networks"] == {"Socket": 4}


def test_full_without_a_framework_continues(run):
    code, result, log, _ = run(launcher="horovodrun", preflight="full")
    assert code == 0, log
    assert result["preflight"]["warnings"] == [
        "no all-reduce ran: neither torch nor Horovod is in the job's environment"
    ]
