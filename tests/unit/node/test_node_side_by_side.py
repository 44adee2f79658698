"""The whole of resume beside reconcile, with EC2, Route 53 and Slurm in memory: many jobs, many nodes."""

from __future__ import annotations

import http.server
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from gpucluster_node import aws, dns, ec2, files, fleet, names, rates, refusals, slurm
from gpucluster_node.power import groups, joining, journal, last_launches, launch, reconcile, resume, shortage, spool
from gpucluster_node.power.observation import Snapshot

from tests.unit.node.power.random_world import Inline

START = datetime(2026, 11, 22, 12, 0, 0)
CLUSTER = fleet.Fleet(
    "c",
    "c.internal",
    "/gpucluster/c/",
    (
        fleet.Partition("train", 0, 1000, "on-demand"),
        fleet.Partition("small", 0, 1000, "spot"),
    ),
)


class World:
    """AWS's answers, and the calls that were made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.book = journal.Journal(folder)
        self.calls: Counter[str] = Counter()
        self.launched: dict[str, dict[str, Any]] = {}
        self.of_token: dict[str, list[dict[str, Any]]] = {}
        self.tags: dict[str, str] = {}
        self.records: dict[str, str] = {}
        self.down: dict[str, str] = {}
        self.refused: tuple[str, ...] = ()
        self.cancelled: set[str] = set()
        self.meanwhile: Callable[[str], None] = lambda action: None
        self.has_launch_indexes = True
        self._lock = threading.Lock()

    def _called(self, action: str) -> None:
        with self._lock:
            self.calls[action] += 1
        self.meanwhile(action)

    def run_instances(self, **request: Any) -> dict[str, Any]:
        self._called("RunInstances")
        if request["LaunchTemplate"]["LaunchTemplateId"] in self.refused:
            error = {"Code": "InsufficientInstanceCapacity", "Message": "Insufficient capacity."}
            raise ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 500}}, "RunInstances")
        token = request["ClientToken"]
        if token == "terminated":
            error = {"Code": "IdempotentInstanceTerminated", "Message": "The instances have been terminated"}
            raise ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}, "RunInstances")
        with self._lock:
            if token not in self.of_token:
                self.of_token[token] = [self._instance(index, token) for index in range(request["MaxCount"])]
        return {"Instances": self.of_token[token]}

    def _instance(self, index: int, token: str = "") -> dict[str, Any]:
        number = len(self.launched)
        made = {
            "InstanceId": f"i-{number:08x}",
            "State": {"Name": "pending"},
            "PrivateIpAddress": f"10.0.{number // 250}.{number % 250}",
            "LaunchTime": START.replace(tzinfo=UTC),
            "AmiLaunchIndex": index if self.has_launch_indexes else 0,
            "ClientToken": token,
        }
        self.launched[made["InstanceId"]] = made
        return made

    def create_tags(self, Resources: list[str], Tags: list[dict[str, str]]) -> None:
        self._called("CreateTags")
        (value,) = (tag["Value"] for tag in Tags if tag["Key"] == names.TAG)
        self.tags |= dict.fromkeys(Resources, value)

    def terminate_instances(self, InstanceIds: list[str]) -> None:
        self._called("TerminateInstances")
        for each in InstanceIds:
            del self.launched[each]

    def change_resource_record_sets(self, HostedZoneId: str, ChangeBatch: dict[str, Any]) -> None:
        self._called("ChangeResourceRecordSets")
        for change in ChangeBatch["Changes"]:
            record = change["ResourceRecordSet"]
            self.records[record["Name"]] = record["ResourceRecords"][0]["Value"]

    def get_parameter(self, Name: str) -> dict[str, Any]:
        self._called("GetParameter")
        types = [{"instance_type": each, "launch_template_id": f"lt-{each}", "version": 1} for each in "abc"]
        return {"Parameter": {"Value": json.dumps({"instance_types": types, "hosted_zone_id": "Z1"})}}

    def scontrol(self, argv: list[str]) -> str:
        self._called("scontrol")
        values = dict(each.partition("=")[::2] for each in argv[2:])
        if values.get("state") == "down":
            self.down |= dict.fromkeys(values["nodename"].split(","), values["reason"])
        shown = argv[3].split(",") if argv[1:3] == ["show", "nodes"] else []
        states = {name: "IDLE" if name in self.cancelled else "ALLOCATED" for name in shown}
        return "".join(f"NodeName={name} State={state}+CLOUD+POWERING_UP\n" for name, state in states.items())

    def instances(self) -> list[ec2.Instance]:
        with self._lock:
            known = list(self.launched.values())
        tags = dict(self.tags)
        return [
            ec2._instance({**each, "Tags": [{"Key": names.TAG, "Value": tags[each["InstanceId"]]}]})
            if each["InstanceId"] in tags
            else ec2._instance(each)
            for each in known
        ]

    def named(self) -> list[str]:
        """The nodes that are instances."""
        return sorted(each.node for each in self.instances() if each.node)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World(tmp_path)
    for module in (joining, resume):
        monkeypatch.setattr(module, "client", lambda service, attempts=0: made)
    monkeypatch.setattr(slurm, "call", made.scontrol)
    monkeypatch.setattr(shortage, "_next", {})
    monkeypatch.setattr(last_launches, "FOLDER", tmp_path / "launched")
    monkeypatch.setattr(refusals, "record", lambda partition, code: None)
    monkeypatch.setattr(launch, "CALLS", rates.TokenBucket(1000, 1000))
    monkeypatch.setattr(ec2, "TAG_CALLS", rates.TokenBucket(1000, 1000))
    return made


def run(world: World, jobs: dict[int, str]) -> None:
    nodes = run_left(world, jobs)
    assert world.named() == sorted(node for node in nodes if node not in world.down)
    assert len(world.launched) == len(world.tags), "an instance without a name"


def run_left(world: World, jobs: dict[int, str], clock: Callable[[], float] = time.monotonic) -> list[str]:
    """jobs: id -> its nodes. Gives all of them."""
    nodes = slurm.expand(",".join(jobs.values()))
    record = world.book.open(nodes)
    launcher = launch.Launcher(CLUSTER, "1", lambda: world, clock, asked=record.asked)
    wanted = [{"job_id": job_id, "nodes_resume": hostlist} for job_id, hostlist in jobs.items()]
    resume.Resume(CLUSTER, launcher, record).run(groups.groups(CLUSTER, nodes, wanted))
    record.close()
    assert world.book.nodes() == frozenset()
    return nodes


def test_an_array_of_64_is_one_launch(world: World) -> None:
    run(world, {number: f"train-{number}" for number in range(1, 65)})
    assert (world.calls["RunInstances"], world.calls["ChangeResourceRecordSets"]) == (1, 1)
    assert len(world.records) == 64


def test_a_job_of_1000_nodes_is_one_launch(world: World) -> None:
    run(world, {1: "train-[1-1000]"})
    assert (world.calls["RunInstances"], world.calls["ChangeResourceRecordSets"]) == (1, 2)
    assert (world.calls["CreateTags"], world.calls["scontrol"]) == (2, 10)


def test_nodes_between_busy_ones_are_named_in_a_few_calls(world: World) -> None:
    run(world, {1: ",".join(f"train-{number}" for number in range(1, 1000, 2))})
    assert world.calls["CreateTags"] <= 12


def test_without_launch_indexes_each_instance_is_named_by_a_call(world: World) -> None:
    world.has_launch_indexes = False
    run(world, {1: "small-[1-20]"})
    assert world.calls["CreateTags"] == 20


def test_a_killed_programs_call_is_made_again_and_launches_nothing_twice(world: World) -> None:
    """The program was killed after EC2 had launched the instances of job 1, and before they had their names. EC2
    returns them for the same token (EC2's guide, ec2-api-idempotency). Another node is launched anew."""
    kept = BaseException("SIGKILL")

    def kill(action: str) -> None:
        if action == "CreateTags":
            raise kept

    world.meanwhile = kill
    nodes, jobs = slurm.expand("train-[1-4]"), [{"job_id": 1, "nodes_resume": "train-[1-3]"}]
    record = world.book.open(nodes[:3], jobs)
    launcher = launch.Launcher(CLUSTER, "1", lambda: world, asked=record.asked)
    with pytest.raises(BaseException) as raised:
        resume.Resume(CLUSTER, launcher, record).run(groups.groups(CLUSTER, nodes[:3], jobs))
    assert raised.value is kept
    world.meanwhile = lambda action: None

    (second,) = journal.Journal(world.folder).reopen()
    other = second.journal.open(nodes, [])
    for number, each in enumerate((second, other)):
        launcher = launch.Launcher(CLUSTER, f"2-{number}", lambda: world, asked=each.asked)
        calls = list(each.calls.values())
        resume.Resume(CLUSTER, launcher, each).run(groups.groups(CLUSTER, each.mine, each.jobs), calls)
    assert (world.named(), len(world.launched)) == (nodes, 4)
    assert second.calls == other.calls == {}, "all have their names"


ASKED = spool.Request(["train-1", "train-2", "train-3", "small-1"], [{"job_id": 1, "nodes_resume": "train-[1-2]"}], 1.0)


class SigKill(BaseException):
    """The process is gone: nothing after it is executed."""


def killed_at(world: World, number: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Launches a job's nodes and two single ones in a process that is killed before or after one of its writes.
    False if it writes less often."""
    put, writes = files.put, itertools.count()
    dead = False

    def killing(path: Path, text: str) -> None:
        nonlocal dead
        at = next(writes)
        if dead or at * 2 == number:
            dead = True
            raise SigKill
        put(path, text)
        if at * 2 + 1 == number:
            dead = True
            raise SigKill

    with monkeypatch.context() as patch:
        patch.setattr(files, "put", killing)
        patch.setattr(resume, "ThreadPoolExecutor", Inline)
        patch.setattr(joining, "ThreadPoolExecutor", Inline)
        with suppress(SigKill):
            resume.accept(ASKED, journal.Journal(world.folder))()
    return dead


@pytest.mark.parametrize("number", range(40))
def test_a_process_that_is_killed_at_a_write_to_the_journal_launches_nothing_twice_and_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Slurm's request stays in its folder until it is in the journal."""
    monkeypatch.setattr(fleet, "load", lambda: CLUSTER)
    monkeypatch.setattr(slurm, "nodes", powering_up)
    was_killed = killed_at(world, number, monkeypatch)
    book = journal.Journal(world.folder)
    for record in book.reopen():
        resume.launch_again(record)
    if number < 2:
        resume.accept(ASKED, book)()
    assert world.named() == ["small-1", "train-1", "train-2", "train-3"] and len(world.launched) == 4
    assert book.nodes() == frozenset() and list(world.folder.glob("*.json")) == []
    assert was_killed or number > 10


def test_a_killed_programs_call_whose_instances_have_ended_is_made_anew(world: World) -> None:
    template = fleet.LaunchTemplate("a", "lt-a", "1")
    call = journal.Call("terminated", template, 3, 3, ("train-1", "train-2", "train-3"))
    record = world.book.open(call.nodes)
    launcher = launch.Launcher(CLUSTER, "2", lambda: world, asked=record.asked)
    jobs = [{"job_id": 1, "nodes_resume": "train-[1-3]"}]
    resume.Resume(CLUSTER, launcher, record).run(groups.groups(CLUSTER, call.nodes, jobs), [call])
    assert (world.named(), len(world.launched)) == (list(call.nodes), 3)
    record.close()


@pytest.mark.parametrize(("cancelled", "named"), [({"train-1"}, 4), ({f"train-{each}" for each in range(1, 5)}, 0)])
def test_a_killed_programs_call_that_is_throttled_is_not_made_as_another_one(
    world: World, cancelled: set[str], named: int
) -> None:
    """EC2 has accepted it before, so another call would launch a second time: not if one of the nodes is no longer
    wanted, and not at all if none is."""
    template = fleet.LaunchTemplate("a", "lt-a", "1")
    call = journal.Call("token", template, 1, 4, tuple(slurm.expand("train-[1-4]")))
    world.of_token["token"] = [world._instance(index) for index in range(4)]
    throttled = ClientError({"Error": {"Code": "RequestLimitExceeded", "Message": "Request limit exceeded."}}, "x")

    def throttle(action: str) -> None:
        if action == "RunInstances" and not world.cancelled:
            world.cancelled = cancelled
            raise throttled

    world.meanwhile = throttle
    record = world.book.open(call.nodes)
    launcher = launch.Launcher(CLUSTER, "2", lambda: world, sleep=lambda seconds: None, asked=record.asked)
    jobs = [{"job_id": number, "nodes_resume": name} for number, name in enumerate(call.nodes)]
    resume.Resume(CLUSTER, launcher, record).run(groups.groups(CLUSTER, call.nodes, jobs), [call])
    record.close()
    assert (len(world.named()), len(world.launched), len(world.of_token)) == (named, 4, 1)


def test_jobs_are_launched_side_by_side_and_their_addresses_written_together(world: World) -> None:
    """Eight launches wait for one another: one after another they would wait for ever."""
    together = threading.Barrier(8, timeout=120)

    def meet(action: str) -> None:
        if action == "RunInstances":
            together.wait()

    world.meanwhile = meet
    run(world, {number: f"train-[{2 * number - 1}-{2 * number}]" for number in range(1, 65)})
    assert world.calls["RunInstances"] == 64
    assert world.calls["GetParameter"] == 2
    assert world.calls["ChangeResourceRecordSets"] <= 64


def test_addresses_that_come_while_a_call_is_made_go_with_the_next() -> None:
    written: list[dict[str, str]] = []
    begun, go_on = threading.Event(), threading.Event()

    def write(addresses: Mapping[str, str]) -> None:
        written.append(dict(addresses))
        begun.set()
        assert go_on.wait(20)

    writer = dns.Writer(write)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(writer.put, {"a": "1"})
        assert begun.wait(20)
        others = [pool.submit(writer.put, {name: "2"}) for name in "bcd"]
        while len(writer._waiting) < 3:
            time.sleep(0.001)
        go_on.set()
        assert [each.result() for each in (first, *others)] == [None] * 4
    assert written == [{"a": "1"}, {"b": "2", "c": "2", "d": "2"}]


def test_every_waiting_thread_gets_the_error_of_a_dns_change() -> None:
    def write(addresses: Mapping[str, str]) -> None:
        raise KeyError("hosted_zone_id")

    writer = dns.Writer(write)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(writer.put, {name: "1"}) for name in "abcdefgh"]
        assert [type(each.exception(20)) for each in futures] == [KeyError] * 8


def test_types_without_capacity_cost_one_call_each(world: World) -> None:
    world.refused = ("lt-a", "lt-b")
    run(world, {number: f"train-{number}" for number in range(1, 17)})
    assert world.calls["RunInstances"] == 3


def test_nodes_without_capacity_are_down_and_no_instance_is_left(world: World) -> None:
    world.refused = ("lt-a", "lt-b", "lt-c")
    run_left(world, {1: "train-[1-4]", 2: "small-1", 3: "small-2"}, itertools.count(0.0, 1000.0).__next__)
    assert sorted(world.down) == ["small-1", "small-2", "train-1", "train-2", "train-3", "train-4"]
    assert not world.launched


def powering_up(nodes: list[str]) -> list[slurm.Node]:
    states = frozenset({"ALLOCATED", "CLOUD", "NOT_RESPONDING", "POWERING_UP"})
    return [slurm.Node(name, states) for name in nodes]


def test_a_node_refused_by_slurm_does_not_affect_others(world: World) -> None:
    """As one that the new slurm.conf lacks."""

    def refuse(argv: list[str]) -> str:
        if "nodeaddr" in argv[3] and "train-2" in argv[2].removeprefix("nodename=").split(","):
            raise slurm.SlurmError("slurm_update error: Invalid node name specified")
        return world.scontrol(argv)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm, "call", refuse)
        run_left(world, {number: f"train-{number}" for number in range(1, 5)})
    assert list(world.down) == ["train-2"]
    assert world.named() == ["train-1", "train-3", "train-4"]


def test_dns_changes_that_succeed_at_the_second_call_terminate_nothing(world: World) -> None:
    failures = [slurm.SlurmError("`scontrol update` did not answer within 30 s")]

    def once(argv: list[str]) -> str:
        if failures:
            raise failures.pop()
        return world.scontrol(argv)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm, "call", once)
        run(world, {1: "train-[1-4]", 2: "small-1"})
    assert world.down == {} and len(world.tags) == 5


def test_many_nodes_without_an_answer_of_slurm_are_given_up_before_their_boots(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call of scontrol that is not answered takes 30 s."""
    now = [0.0]

    def scontrol(argv: list[str]) -> str:
        if "nodeaddr" not in argv[3]:
            return world.scontrol(argv)
        now[0] += slurm.TIMEOUT_S
        raise slurm.SlurmError("did not answer")

    monkeypatch.setattr(slurm, "call", scontrol)
    run_left(world, {number: f"train-{number}" for number in range(1, 101)}, lambda: now[0])
    assert len(world.down) == 100 and not world.launched
    assert now[0] == 120


def test_a_launch_that_waits_for_capacity_ends_when_slurm_powers_the_node_down(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm may ask for the node anew, which another program then launches."""
    states = {"train-1": "ALLOCATED+CLOUD+POWERING_UP", "train-2": "IDLE+CLOUD+POWERING_DOWN", "train-3": "DOWN+CLOUD"}

    def scontrol(argv: list[str]) -> str:
        if argv[1] == "show":
            return "".join(f"NodeName={name} State={states[name]} \n" for name in argv[3].split(","))
        return world.scontrol(argv)

    def wait(self: launch.Launcher, client: Any, found: launch.Launched, since: float) -> bool:
        world.refused = ()
        return bool(found.left)

    monkeypatch.setattr(slurm, "call", scontrol)
    monkeypatch.setattr(launch.Launcher, "wait_for_room", wait)
    world.refused = ("lt-a", "lt-b", "lt-c")
    run_left(world, {1: "train-1", 2: "train-2", 3: "train-3"})
    assert (world.named(), world.down) == (["train-1"], {})


@pytest.mark.parametrize("jobs", [16, 64])
def test_reconcile_ignores_nodes_that_resume_is_launching(world: World, jobs: int) -> None:
    """However long it takes: every look is five minutes after the one before."""
    nodes = [f"train-{number}" for number in range(1, 2 * jobs + 1)]
    seen, looks, lock = reconcile.Seen(), [START], threading.Lock()
    done: list[reconcile.Action] = []

    def look(action: str) -> None:
        with lock:
            looks.append(looks[-1] + timedelta(minutes=5))
            instances, states = world.instances(), powering_up(nodes)
            launching = world.book.nodes()
            calls = world.book.tokens()
            snapshot = Snapshot(CLUSTER, states, instances, looks[-1], launching=launching, calls=calls)
            done.extend(reconcile.decide(snapshot, seen))

    world.meanwhile = look
    run(world, {number: f"train-[{2 * number - 1}-{2 * number}]" for number in range(1, jobs + 1)})
    look("after it")
    assert len(looks) > 3 * jobs
    assert done == []


def test_a_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    now, waits = [0.0], list[float]()
    bucket = rates.TokenBucket(5, 2, lambda: now[0], waits.append)
    for _ in range(9):
        bucket.take()
    assert waits == [0.5, 1.0, 1.5, 2.0]
    now[0] = 100.0
    bucket.take()
    assert waits == [0.5, 1.0, 1.5, 2.0], "full again"


class Refusing(http.server.BaseHTTPRequestHandler):
    """EC2 without capacity, as it answers over HTTP: status 500 (galaxyproject/cloudman#64)."""

    asked = 0

    def do_POST(self) -> None:
        type(self).asked += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        body = (
            b"<Response><Errors><Error><Code>InsufficientInstanceCapacity</Code><Message>Insufficient capacity."
            b"</Message></Error></Errors><RequestID>r</RequestID></Response>"
        )
        self.send_response(500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Refusing]]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
        }.items():
            monkeypatch.setenv(name, value)
        Refusing.asked = 0
        yield Refusing
        server.shutdown()
        thread.join()


def test_a_type_without_capacity_is_asked_for_once(refusing: type[Refusing]) -> None:
    """boto3 repeats what a server answers with status 500, five times in its standard mode."""
    made: list[Any] = []

    def client() -> Any:
        made.append(aws._client.__wrapped__("ec2", 1))
        return made[-1]

    templates = [fleet.LaunchTemplate("p4d.24xlarge", "lt-1", "1")]
    launcher = launch.Launcher(CLUSTER, "1", client)
    found = launcher.launch(["train-1", "train-2"], templates, lambda instances: None, together=True)
    assert found.why == "InsufficientInstanceCapacity: Insufficient capacity. (p4d.24xlarge)"
    assert refusing.asked == 1
