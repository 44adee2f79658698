"""BeeGFS's generations: the head's decisions and the nodes' actions, from the start to ready, and after a loss."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from gpucluster_node import retry, slurm
from gpucluster_node.beegfs import head
from gpucluster_node.beegfs import node as beegfs_node
from gpucluster_node.beegfs import state as shared
from gpucluster_node.beegfs.head import Action, decide
from gpucluster_node.beegfs.state import Report, Settings, State

SERVERS = ("train-1", "train-2")
SETTINGS = Settings("/ram", "cluster", "train", SERVERS, "s3://b/data", None, "8", 150)
EMPTY = replace(SETTINGS, source=None)
ALL = {(kind, number) for kind in ("meta", "storage") for number in (1, 2)}
GONE = retry.reason("the EC2 instance of this node is gone", 0)


def state(
    phase: str, generation: str = "1", why: str = "new", settings: Settings = SETTINGS, held: tuple[str, ...] = ()
):
    return State(generation, phase, why, shared.describe(settings), held)  # type: ignore[arg-type]


def reports(server: str = "", client: str = "", filled: str = "", **of: Report) -> dict[str, Report]:
    found = {name: Report(name, server, client, filled) for name in SERVERS}
    return found | {report.node: report for report in of.values()}


def node(name: str, states: str = "IDLE+CLOUD", reason: str = "") -> slurm.Node:
    return slurm.Node(name, frozenset(states.split("+")), reason)


UP = [node(name) for name in SERVERS]


def decided(now, said, nodes=UP, registered=ALL, jobs=(), settings=SETTINGS) -> tuple[State, list[Action]]:
    return decide(settings, now, said, nodes, registered, list(jobs))


def phase(answer: tuple[State, list[Action]]) -> tuple[str, str]:
    return answer[0].generation, answer[0].phase


def test_management_of_the_first_generation_starts_before_servers() -> None:
    following, actions = decided(None, {}, [])
    assert (following, actions) == (state("building"), [Action("manage", "1", "new")])


@pytest.mark.parametrize(
    ("now", "said", "registered", "becomes"),
    [
        ("building", reports(), ALL, ("1", "building")),
        ("building", reports(server="1"), ALL - {("meta", 2)}, ("1", "building")),
        ("building", reports(server="1", x=Report("train-2")), ALL, ("1", "building")),
        ("building", reports(server="1"), ALL, ("1", "filling")),
        ("filling", reports(server="1", client="1"), ALL, ("1", "filling")),
        ("filling", reports("1", "1", "1", x=Report("train-1", "1", "1")), ALL, ("1", "filling")),
        ("filling", reports("1", "1", "1"), ALL, ("1", "ready")),
        ("ready", reports("1", "1", "1"), (), ("1", "ready")),
    ],
)
def test_a_generation_goes_from_building_to_ready(now, said, registered, becomes) -> None:
    assert phase(decided(state(now), said, registered=registered)) == becomes


def test_without_a_source_it_is_ready_when_it_is_built() -> None:
    assert phase(decided(state("building", settings=EMPTY), reports(server="1"), settings=EMPTY)) == ("1", "ready")


LOSSES = {
    "its instance is gone": (reports("1", "1", "1"), [UP[0], node("train-2", "DOWN+CLOUD", GONE)], "train-2 is down"),
    "it does not answer": (
        reports("1", "1", "1"), [UP[0], node("train-2", "DOWN+CLOUD+NOT_RESPONDING", "x")], "train-2 is down"
    ),
    "it is being replaced": (
        reports("1", "1", "1"), [UP[0], node("train-2", "IDLE+CLOUD+POWERING_DOWN")], "train-2 is powered down"
    ),
    "it has booted again": (reports("1", "1", "1", x=Report("train-2")), UP, "train-2 has lost its memory"),
    "it is another machine": ({"train-1": Report("train-1", "1", "1", "1")}, UP, "train-2 has lost its memory"),
    "both": (reports(), UP, "train-1 has lost its memory; train-2 has lost its memory"),
}  # fmt: skip


@pytest.mark.parametrize("during", ["filling", "ready"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_server_begins_a_new_generation_and_says_so(loss: str, during: str) -> None:
    said, nodes, why = LOSSES[loss]
    following, actions = decided(state(during), said, nodes)
    assert following == state("building", "2", why)
    assert actions[0] == Action("manage", "2", why)
    assert Action("drain", "train-1", f"/ram is being built, because {why}") in actions


@pytest.mark.parametrize(
    "what",
    [
        node("train-2", "DOWN+CLOUD", "a person looks at it"),
        node("train-2", "IDLE+CLOUD+NOT_RESPONDING"),
        node("train-2", "IDLE+CLOUD+POWERING_UP"),
        node("train-2", "MIXED+CLOUD+DRAIN", "a person's"),
    ],
    ids=lambda node: "+".join(sorted(node.states)),
)
def test_states_that_are_no_loss(what: slurm.Node) -> None:
    following, actions = decided(state("ready"), reports("1", "1", "1"), [UP[0], what])
    assert (following, actions) == (state("ready"), [])


def test_other_settings_begin_a_new_generation() -> None:
    larger = replace(SETTINGS, gib_per_node=200)
    assert phase(decided(state("ready"), reports("1", "1", "1"), settings=larger)) == ("2", "building")


RUNNING, WAITING = slurm.Queued("7", True, "/x"), slurm.Queued("8", False, "/x")
LOST = LOSSES["it has booted again"][0]


def verbs(actions: list[Action]) -> list[tuple[str, str]]:
    return [(action.verb, action.name) for action in actions if action.verb in ("hold", "requeue", "release")]


def test_jobs_that_used_what_was_lost_are_requeued_and_wait() -> None:
    following, actions = decided(state("ready"), LOST, jobs=[RUNNING, WAITING])
    assert verbs(actions) == [("requeue", "7"), ("hold", "8")]
    assert following.held == ("7", "8")
    again, actions = decided(following, LOST, jobs=[slurm.Queued("7", False, "/x")])
    assert (verbs(actions), again.held) == ([], ("7", "8"))


def test_jobs_with_open_files_are_requeued_when_their_node_reports_them() -> None:
    now = state("building", "2", "train-2 is down", held=("7",))
    _, actions = decided(now, reports(x=Report("train-1", users=("7", "9"))))
    assert verbs(actions) == [("requeue", "9")]


def test_a_nodes_report_gets_the_names_that_scontrol_takes_and_no_job_that_has_ended() -> None:
    """`requeuehold 29` of the last element, whose number is the array's, would run all elements again."""
    queued = [
        slurm.Queued("29_9", True, "/x", "29"),
        slurm.Queued("29_4", True, "/x", "31"),
        slurm.Queued("40", True, "/y", "40"),
        slurm.Queued("41", False, "/y", "41"),
    ]
    said = {"train-1": Report("train-1", users=("29", "31", "40", "41", "50"))}
    assert head.with_job_ids(said, queued)["train-1"].users == ("29_9", "29_4", "40")


def test_jobs_that_begin_before_it_is_ready_wait() -> None:
    _, actions = decided(state("filling"), reports("1", "1"), jobs=[RUNNING, WAITING])
    assert verbs(actions) == [("hold", "8")]


def test_when_it_is_ready_jobs_and_nodes_continue() -> None:
    drained = [
        node("train-1", "IDLE+CLOUD+DRAIN", "/ram is being filled from s3://b/data, because train-2 is down"),
        node("train-2", "IDLE+CLOUD+DRAIN", "a person's"),
    ]
    following, actions = decided(state("filling", "2", "train-2 is down", held=("7",)), reports("2", "2", "2"), drained)
    assert actions == [Action("release", "7"), Action("resume", "train-1")]
    assert following == state("ready", "2", "train-2 is down")


def test_the_reason_for_a_delay_is_the_nodes_reason() -> None:
    said = reports("1", "1", x=Report("train-2", "1", "1", error="cannot list s3://b/data: AccessDenied"))
    _, actions = decided(state("filling"), said)
    reason = "/ram is being filled from s3://b/data: train-2: cannot list s3://b/data: AccessDenied"
    assert actions == [Action("drain", name, reason) for name in SERVERS]
    drained = [node(name, "IDLE+CLOUD+DRAIN", reason) for name in SERVERS]
    assert decided(state("filling"), said, drained)[1] == []


@pytest.mark.parametrize("name", ["train-1", "other-1"])
@pytest.mark.parametrize(
    ("now", "report", "does"),
    [
        (None, Report(""), (None, None)),
        (state("building"), Report(""), ("server", None)),
        (state("building"), Report("", server="1"), (None, None)),
        (state("filling"), Report("", server="1"), ("client", "client")),
        (state("filling"), Report("", server="1", client="1"), ("fill", None)),
        (state("filling"), Report("", server="1", client="1", filled="1"), (None, None)),
        (state("ready"), Report("", server="1", client="1"), (None, None)),
        # It has booted again: it must not join as if nothing had happened.
        (state("ready"), Report(""), (None, "client")),
        (state("building", "2"), Report("", server="1", client="1"), ("unmount", "unmount")),
        (state("building", "2"), Report("", server="1"), ("server", None)),
        (state("filling", "2"), Report("", server="2", client="1"), ("unmount", "unmount")),
    ],
)
def test_a_node_does_one_thing_after_another(now, report, does, name) -> None:
    assert beegfs_node.doing(SETTINGS, now, replace(report, node=name)) == does[name == "other-1"]


def test_state_and_reports_travel_in_files(tmp_path: Path) -> None:
    assert shared.load_state(tmp_path) is None
    shared.save_state(state("ready", held=("7",)), tmp_path)
    assert shared.load_state(tmp_path) == state("ready", held=("7",))
    shared.save_report(Report("train-1", "1", users=("8",)), tmp_path)
    (tmp_path / "nodes/train-2.json").write_text("{half")
    assert shared.load_reports(tmp_path) == {"train-1": Report("train-1", "1", users=("8",))}


@pytest.mark.parametrize(
    ("script", "uses"),
    [
        ("python train.py --data /ram/imagenet", True),
        ("python train.py --data=/ram", True),
        ("python train.py --data /rams", False),
        ("python train.py --data /home/u/ram/x", False),
        ("python train.py --data /fsx/ram", False),
        ("python train.py --data /ram-2", False),
    ],
)
def test_a_job_uses_it_if_it_names_it(tmp_path: Path, script: str, uses: bool) -> None:
    (tmp_path / "job.sbatch").write_text(script)
    assert head.names("/ram", slurm.Queued("1", True, str(tmp_path / "job.sbatch"))) is uses


def test_an_impossible_copy_is_reported_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beegfs_node, "BUNDLE", Path(beegfs_node.__file__).parents[2])
    monkeypatch.setattr(beegfs_node, "MARKS", {name: tmp_path / name for name in ("server", "client")})
    for mark in ("server", "client"):
        (tmp_path / mark).write_text("1")
    settings = replace(SETTINGS, mount=str(tmp_path / "ram"), source=str(tmp_path))
    follower = beegfs_node.Follower(settings, "train-1", lambda report: None)
    while not follower.report.error:
        follower.step(state("filling"))
    assert follower.report.error == f"{tmp_path}/ram is not mounted"


def test_a_server_has_the_number_of_its_place_among_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beegfs.sh").write_text('echo "$1 $GENERATION ${NUMBER:-none}" >"$SAID"\n')
    monkeypatch.setattr(beegfs_node, "BUNDLE", tmp_path)
    monkeypatch.setattr(beegfs_node, "MARKS", {name: tmp_path / name for name in ("server", "client")})
    for node, phase, said in (("train-2", "building", "server 1 2\n"), ("other-2", "ready", "client 1 none\n")):
        monkeypatch.setenv("SAID", str(tmp_path / node))
        beegfs_node.Follower(SETTINGS, node, lambda report: None).step(state(phase))
        assert (tmp_path / node).read_text() == said


def test_the_specification_beside_the_script_is_used(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"channels": {"train": {"source": "/ram/imagenet"}}}')
    assert head.names("/ram", slurm.Queued("1", True, str(tmp_path / "job.sbatch")))


def test_a_folder_with_very_many_files_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its user would hold the rounds up, for all."""
    (tmp_path / "job.sbatch").write_text("#!/bin/bash\n")
    for number in range(2000):
        (tmp_path / f"{number}.json").write_text("{}")
    read: list[Path] = []
    monkeypatch.setattr(head, "read_users_file", lambda path, most: str(read.append(path) or ""))
    assert not head.names("/ram", slurm.Queued("1", True, str(tmp_path / "job.sbatch")))
    assert len(read) <= 1 + head.MAX_ENTRIES


def test_a_job_without_a_script_names_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beegfs.json").write_text('{"mount": "/ram"}')
    monkeypatch.chdir(tmp_path)
    assert not head.names("/ram", slurm.Queued("1", True, "(null)"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "beegfs.json").unlink()
    assert not head.names("/ram", slurm.Queued("1", True, str(tmp_path / "pipe")))


@pytest.mark.parametrize(
    ("owner", "environment", "found"),
    [
        (65534, {"SLURM_JOB_ID": "4711"}, ["4711"]),
        (1, {"SLURM_JOB_ID": "4711"}, []),  # it names another user's job
        (65534, {"SLURM_JOB_ID": "4712"}, []),  # no job of this node
        (65534, {"SLURM_JOB_ID": "47\n11", "X": "\nSLURM_JOB_ID=4711"}, []),
        (65534, {"SLURM_JOB_ID": "\udcff"}, []),
    ],
)
def test_a_job_with_a_file_open_there_is_found_if_it_is_the_users(
    monkeypatch: pytest.MonkeyPatch, owner: int, environment: dict[str, str], found: list[str]
) -> None:
    user = os.getuid() or 65534
    monkeypatch.setattr(slurm, "call", lambda argv: f"4711 {owner if owner != 65534 else user}\n4700 0\n")
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    (folder / "open").touch()
    code = f"f = open({str(folder / 'open')!r}); print(flush=True); input()"
    inherited = {"SLURM_ARRAY_JOB_ID": "4700", "SLURM_ARRAY_TASK_ID": "3"}  # of an element that submitted the job
    argv = ["/usr/bin/python3", "-c", f"import os; os.chdir('/'); {code}"]
    as_user = argv if os.getuid() else ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv]
    with subprocess.Popen(as_user, env=environment | inherited, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdout and job.stdout.readline()
        assert beegfs_node.jobs_with_files_on(str(folder), "train-1") == found
        assert beegfs_node.jobs_with_files_on(f"{folder}/other", "train-1") == []
        job.communicate(b"\n")
    shutil.rmtree(folder)


def test_squeue_is_read_without_jobs_that_somebody_holds() -> None:
    text = "7|7|N/A|RUNNING|None|/home/u/jobs/a/job.sbatch\n8|8|N/A|PENDING|Resources|/b\n"
    text += "9|9|N/A|PENDING|JobHeldUser|/c\n14|14|N/A|PENDING|JobHoldMaxRequeue|/h\n"
    text += "15|15|N/A|REQUEUE_HOLD|launch failure limit exceeded requeued held|/i\n10|10|N/A|COMPLETING|None|/d\n"
    text += "11|11|N/A|FAILED|None|/e\n12|12|N/A|REQUEUED|None|/f\n13|13|N/A|STOPPED|None|/g\n"
    text += "20|20|3-8|PENDING|Resources|/j\n21|20|1|RUNNING|None|/j\n24|22|9|RUNNING|None|/k\n"
    assert slurm.parse_queued(text) == [
        slurm.Queued("7", True, "/home/u/jobs/a/job.sbatch", "7"),
        slurm.Queued("8", False, "/b", "8"),
        slurm.Queued("12", False, "/f", "12"),
        slurm.Queued("13", True, "/g", "13"),
        slurm.Queued("20", False, "/j", "20"),
        slurm.Queued("20_1", True, "/j", "21"),
        slurm.Queued("22_9", True, "/k", "24"),
    ]
