"""Instances that fail one after another: their type's launches pause, and go on after a while."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from gpucluster_node import ec2, slurm
from gpucluster_node.health import checks, facts, look
from gpucluster_node.power import failing

BOOTSTRAP = Path(__file__).resolve().parents[3] / "bootstrap"
START = datetime(2026, 11, 23, 7, 0, tzinfo=UTC)
ILL = "health: nvidia-smi lists 7 of 8 GPUs"
BROKEN = "step=nvidia_driver line=12: nvidia-smi lists 7 GPUs, p5.48xlarge has 8"
TYPE = "p5.48xlarge"


def given(at: float) -> datetime:
    """When Slurm got a reason, as it shows that: in the machine's own time zone, without naming it."""
    return (START + timedelta(minutes=at)).astimezone().replace(tzinfo=None)


class World:
    """A head node: each `at` is in minutes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run/failures.json"
        self.watch = failing.Watch(self.path)

    def look(
        self, at: float, states: str, number: float, reason: str = "", *, runs: bool = False, **instance: str
    ) -> None:
        """At one node, whose instance has this number and was launched in the minute with that number. runs: a job's
        programs, not only its prolog."""
        node = slurm.Node("train-1", frozenset(states.split("+")), reason, given(at) if reason else None)
        launched = START + timedelta(minutes=number)
        found = ec2.Instance(
            f"i-{number}", "running", None, launched, "train-1", instance.get("boot_failure"), instance_type=TYPE
        )
        busy = {"train-1"} if runs else set[str]()
        self.watch.look([node], {"train-1": found}, START + timedelta(minutes=at), lambda: busy)

    def fails(self, number: float) -> None:
        self.look(number, "IDLE+DRAIN+POWER_DOWN", number, ILL)

    def pauses(self, at: float) -> dict[str, str]:
        return failing.pauses(START + timedelta(minutes=at), self.path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_two_failures_do_not_pause_a_type(world: World) -> None:
    assert world.pauses(0) == {}, "there is no file yet"
    for number in (1, 2):
        world.fails(number)
    world.fails(2)
    assert world.pauses(3) == {}, "the same instance counts once"


def test_three_in_a_row_pause_it_for_a_while(world: World) -> None:
    for number in (1, 2, 3):
        world.fails(number)
    words = f"launches of {TYPE} pause until 07:13:00 UTC, because 3 of its instances failed in a row"
    assert world.pauses(4) == {TYPE: f"{words}, the last one with: {ILL}"}
    assert world.pauses(13) == {}
    world.fails(14)
    assert world.pauses(15) == {}, "the count starts again"


def test_a_later_instance_that_passes_ends_the_row(world: World) -> None:
    for number in (1, 2):
        world.fails(number)
    for at in (4.0, 5.6):
        world.look(at, "ALLOCATED", 3, runs=True)
    world.fails(6)
    assert world.pauses(7) == {}


@pytest.mark.parametrize("states", ["ALLOCATED", "IDLE"])
def test_a_node_has_not_passed_before_a_job_runs_on_it(world: World, states: str) -> None:
    """Its job is CONFIGURING while the other nodes of the job still boot: no prolog has run."""
    for number in (1, 2):
        world.fails(number)
    for at in (4.0, 5.6, 9.0):
        world.look(at, states, 3)
    world.fails(10)
    assert TYPE in world.pauses(11)


def test_a_short_job_proves_as_much(world: World) -> None:
    for number in (1, 2):
        world.fails(number)
    world.look(4.0, "ALLOCATED", 3, runs=True)
    world.look(5.6, "IDLE", 3)
    world.fails(6)
    assert world.pauses(7) == {}


def test_slurm_is_asked_for_running_jobs_only_if_something_has_failed(world: World) -> None:
    world.watch.look([], {}, START, lambda: pytest.fail("asked"))


def test_a_job_runs_on_its_nodes_once_it_is_no_longer_configuring() -> None:
    text = "CONFIGURING|train-[1-2]\nRUNNING|train-[3-4],ps-1\nPENDING|\nSUSPENDED|big-7\nCOMPLETING|big-8\n"
    assert slurm.parse_busy(text) == {"train-3", "train-4", "ps-1", "big-7"}


def test_each_pause_is_twice_as_long_until_an_instance_passes(world: World) -> None:
    at, lengths = 0.0, list[float]()
    for row in range(7):
        for number in (1, 2, 3):
            world.fails(at + number)
        pause = failing.read(world.path).paused[TYPE]
        lengths.append((pause.until - pause.began) / timedelta(minutes=1))
        assert pause.number == row + 1
        at = (pause.until - START) / timedelta(minutes=1)
    assert lengths == [10, 20, 40, 80, 160, 240, 240]
    for later in (1.0, 2.6):
        world.look(at + later, "ALLOCATED", at, runs=True)
    assert TYPE not in failing.read(world.path).paused
    for number in (4, 5, 6):
        world.fails(at + number)
    assert failing.read(world.path).paused[TYPE].number == 1


def test_a_long_pause_still_says_why(world: World) -> None:
    for number in (1, 2, 3, 14, 15, 16, 37, 38, 39, 80, 81, 82):
        world.fails(number)
    world.look(160, "IDLE", 0)
    words = f"launches of {TYPE} pause until 09:42:00 UTC, because 12 of its instances failed in a row"
    assert world.pauses(160) == {TYPE: f"{words}, the last one with: {ILL}"}


def test_instances_of_one_launch_are_one_row(world: World) -> None:
    for number in range(8):
        node = slurm.Node("train-1", frozenset({"IDLE", "DRAIN"}), ILL, given(number + 1))
        found = ec2.Instance(f"i-{number}", "running", None, START, "train-1", None, instance_type=TYPE)
        world.watch.look([node], {"train-1": found}, START + timedelta(minutes=1, seconds=number), set[str])
    assert failing.read(world.path).paused[TYPE].number == 1


def look_at_a_launch(
    world: World, bad: int, others: str, before: timedelta = timedelta(0), replaced_at: int = 0
) -> None:
    """Judges twelve instances, whose first ones have failed. before: how much sooner than these the others were
    launched. replaced_at: the minute in which the first ones were launched again."""
    nodes, own = list[slurm.Node](), dict[str, ec2.Instance]()
    for number in range(12):
        name, launched = f"train-{number}", START - before
        node = slurm.Node(name, frozenset(others.split("+")))
        if number < bad:
            launched = START + timedelta(minutes=replaced_at)
            node = slurm.Node(name, frozenset({"IDLE", "DRAIN", "POWER_DOWN"}), ILL, given(replaced_at + 2))
        nodes.append(node)
        own[name] = ec2.Instance(f"i-{number}-{launched}", "running", None, launched, name, None, instance_type=TYPE)
    world.watch.look(nodes, own, START + timedelta(minutes=replaced_at + 2), set[str])


@pytest.mark.parametrize("others", ["IDLE", "ALLOCATED", "ALLOCATED+NOT_RESPONDING+POWERING_UP"])
def test_three_of_many_instances_that_were_launched_together_do_not_pause_their_type(world: World, others: str) -> None:
    """Some fail while the others still boot."""
    look_at_a_launch(world, 3, others, timedelta(seconds=30))
    assert world.pauses(3) == {} and len(failing.read(world.path).failures) == 3
    for minute in (4, 5):
        world.look(minute, "DOWN", minute, boot_failure="step=munge line=5: no secret")
    assert world.pauses(6) == {}, "these say nothing about the type"
    look_at_a_launch(world, 4, others)
    assert TYPE in world.pauses(3), "there are too many"


def test_replacements_that_fail_one_after_another_pause_the_type_although_the_first_launch_was_good(
    world: World,
) -> None:
    for minute in (0, 5, 10):
        look_at_a_launch(world, 1, "ALLOCATED", replaced_at=minute)
        assert world.pauses(minute + 3) == {}
    look_at_a_launch(world, 1, "ALLOCATED", replaced_at=15)
    assert TYPE in world.pauses(18)


@pytest.mark.parametrize(
    ("others", "launched_before_s"),
    [("IDLE", 90), ("IDLE+POWERED_DOWN", 0), ("DOWN", 0), ("IDLE+DRAIN", 0), ("IDLE+POWERING_DOWN", 0)],
)
def test_instances_that_are_older_or_out_of_service_say_nothing_for_their_type(
    world: World, others: str, launched_before_s: int
) -> None:
    look_at_a_launch(world, 3, others, timedelta(seconds=launched_before_s))
    assert TYPE in world.pauses(3)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"failures": [], "paused": {"p5.48xlarge": "2026-11-23T07:10:00+00:00"}}']
)
def test_a_file_that_cannot_be_read_counts_as_none(world: World, text: str) -> None:
    world.path.parent.mkdir()
    world.path.write_text(text)
    assert world.pauses(1) == {}
    world.watch = failing.Watch(world.path)
    world.fails(1)
    assert len(failing.read(world.path).failures) == 1


def test_an_older_instance_that_is_still_in_service_does_not(world: World) -> None:
    for at in (1.0, 2.6):
        world.look(at, "ALLOCATED", 0, runs=True)
    for number in (3, 4):
        world.fails(number)
    for at in (4.2, 6.0):
        world.look(at, "ALLOCATED", 0, runs=True)
    world.fails(7)
    assert TYPE in world.pauses(8)


def test_a_prolog_that_still_checks_has_not_passed(world: World) -> None:
    for number in (1, 2):
        world.fails(number)
    world.look(3.0, "ALLOCATED", 3, runs=True)
    world.look(4.0, "ALLOCATED+DRAIN+POWER_DOWN", 3, ILL)
    assert TYPE in world.pauses(5)


def test_a_boot_that_fails_counts_too(world: World) -> None:
    for number in (1, 2, 3):
        world.look(number, "ALLOCATED+POWERING_UP", number, boot_failure=BROKEN)
    assert world.pauses(4)[TYPE].endswith(BROKEN)


def test_a_node_that_answers_has_recovered_from_its_boot(world: World) -> None:
    for number in (1, 2, 3):
        world.look(number, "IDLE", number, boot_failure=BROKEN)
    assert failing.read(world.path).failures == ()


STORAGE_STEPS = [path.stem for path in sorted((BOOTSTRAP / "steps/storage").glob("*.sh"))]
BOOT_STEPS = set(re.findall(r"^run_step (\w+)$", (BOOTSTRAP / "compute.sh.j2").read_text(), re.MULTILINE))
OWN_HARDWARE = {"scratch"}
"""One of the steps for storage: it uses the instance's own disks."""


@pytest.mark.parametrize(
    "step", [*sorted(BOOT_STEPS & (set(STORAGE_STEPS) - OWN_HARDWARE)), "munge", "packages", "scripts/x.sh"]
)
def test_a_boot_that_fails_because_of_a_shared_service_is_named_and_does_not_count(world: World, step: str) -> None:
    place = f"step={step}" if step.startswith("scripts/") else f"step={step} line=31"
    why = f"{place}: /fsx: fs-1.fsx.us-east-1.amazonaws.com:988 is closed (log boot.log)"
    for number in (1, 2, 3):
        world.look(number, "ALLOCATED+POWERING_UP", number, boot_failure=why)
    assert world.pauses(4) == {}
    assert [each.why for each in failing.read(world.path).failures] == [why] * 3, "`gpucluster why` shows them"


def test_a_boot_step_of_the_hardware_counts(world: World) -> None:
    assert BOOT_STEPS >= failing.SHARED_STEPS, "nodes run each of them"
    for number, step in enumerate(("scratch", "efa", "slurm_compute"), start=1):
        world.look(number, "ALLOCATED+POWERING_UP", number, boot_failure=f"step={step} line=1: no")
    assert TYPE in world.pauses(4)


def test_a_mount_that_fails_before_a_job_does_not_count(world: World) -> None:
    """`compute.sh storage` drains the node with these words."""
    (prefix,) = re.findall(r'state=power_down_asap reason="(.*)\$1"', (BOOTSTRAP / "compute.sh.j2").read_text())
    for number in (1, 2, 3):
        world.look(number, "IDLE+DRAIN", number, f"{prefix}step=storage_mounts line=31: /fsx: no answer within 60 s")
    assert world.pauses(4) == {} and len(failing.read(world.path).failures) == 3


def test_a_pause_is_explained_by_a_failure_that_counts(world: World) -> None:
    for number in (1, 2, 3):
        world.fails(number)
    world.look(4, "ALLOCATED+POWERING_UP", 4, boot_failure="step=munge line=5: no secret")
    assert world.pauses(5)[TYPE].endswith(ILL)


NO_MOUNT = look.reason(
    [*checks.mounts(checks.Answer(0, "36 35 98:0 / / rw - ext4 x rw"), facts.Facts(mounts=("/fsx",)))]
)
PLANNED = f"health: {checks.PLANNED} system-reboot at 21 Jan 2019 09:00:43 GMT"


OF_A_USER = look.reason(["preflight of job 12: train-1 has 7 of the 8 GPUs that the job asks for"])


@pytest.mark.parametrize(
    "reason", ["bad GPU", PLANNED, NO_MOUNT, f"{PLANNED}; storage: nothing is mounted on /fsx", OF_A_USER]
)
def test_a_node_whose_hardware_has_not_failed_does_not_count(world: World, reason: str) -> None:
    for number in (1, 2, 3):
        world.look(number, "IDLE+DRAIN", number, reason)
    assert world.pauses(4) == {}


def test_an_instance_that_is_gone_already_is_known_from_before(world: World) -> None:
    for number in (1, 2, 3):
        world.look(number, "ALLOCATED", number)
        ill = slurm.Node("train-1", frozenset({"IDLE", "POWERED_DOWN"}), ILL, given(number))
        world.watch.look([ill], {}, START + timedelta(minutes=number, seconds=5), set[str])
    assert TYPE in world.pauses(4)


def test_a_restarted_reconcile_goes_on_counting_and_forgets_after_an_hour(world: World) -> None:
    for number in (1, 2):
        world.fails(number)
    world.watch = failing.Watch(world.path)
    assert len(failing.read(world.path).failures) == 2
    world.look(62, "IDLE", 50)
    assert failing.read(world.path).failures == ()


def test_the_reason_of_an_earlier_instance_does_not_count_against_the_next(world: World) -> None:
    world.fails(1)
    kept = slurm.Node("train-1", frozenset({"ALLOCATED"}), ILL, given(1))
    for number in (2, 3):
        launched = START + timedelta(minutes=number)
        found = ec2.Instance(f"i-{number}", "running", None, launched, "train-1", None, instance_type=TYPE)
        world.watch.look([kept], {"train-1": found}, launched + timedelta(minutes=1), set[str])
    assert len(failing.read(world.path).failures) == 1
