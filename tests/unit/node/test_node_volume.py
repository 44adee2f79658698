"""Moving the data volume from one head node to the next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from gpucluster_node import fleet
from gpucluster_node.head import heads, volume

ME = heads.Head("i-new", "running", "GpuCluster", "head", "1234")


def other(state: str = "running", cluster: str = "GpuCluster", role: str = "head") -> heads.Head:
    return heads.Head("i-old", state, cluster, role, "0000")


def attachment(instance_id: str, state: str = "attached") -> dict[str, str]:
    return {"InstanceId": instance_id, "State": state}


@pytest.mark.parametrize(
    ("what", "attached", "holder", "move"),
    [
        ("nobody has it", None, None, "attach"),
        ("nobody has it, and the old head still runs", None, other(), "stop"),
        ("nobody has it, and the old head boots", None, other("pending"), "stop"),
        ("nobody has it, and the old head stops", None, other("stopping"), "wait"),
        ("nobody has it, and the old head has stopped", None, other("stopped"), "attach"),
        ("nobody has it, and the old head is being terminated", None, other("shutting-down"), "wait"),
        ("I have it", attachment("i-new"), None, "done"),
        ("it is on its way", attachment("i-new", "attaching"), None, "wait"),
        ("the old head runs", attachment("i-old"), other(), "stop"),
        ("it boots", attachment("i-old"), other("pending"), "stop"),
        ("it stops", attachment("i-old"), other("stopping"), "wait"),
        ("it has stopped", attachment("i-old"), other("stopped"), "detach"),
        ("it lets go", attachment("i-old", "detaching"), other("stopped"), "wait"),
        ("it cannot let go while it runs", attachment("i-old", "detaching"), other(), "stop"),
        ("it is being terminated", attachment("i-old"), other("shutting-down"), "wait"),
        ("it is gone", attachment("i-old"), other("terminated"), "wait"),
    ],
)
def test_each_step_of_the_takeover(
    what: str, attached: dict[str, str] | None, holder: heads.Head | None, move: str
) -> None:
    assert volume.next_move(attached, holder, ME, wanted=True) == move, what


@pytest.mark.parametrize(
    ("holder", "wanted"),
    [(other(cluster="Another"), True), (other(role="compute"), True), (other(), False)],
    ids=["another cluster's", "a compute node", "this head is not the one that the stack wants"],
)
def test_only_the_old_head_node_is_stopped(holder: heads.Head, wanted: bool) -> None:
    with pytest.raises(volume.NotOurs, match="i-old has the data volume"):
        volume.next_move(attachment("i-old"), holder, ME, wanted=wanted)


def test_a_head_that_the_stack_no_longer_wants_leaves_the_volume_to_the_other_one() -> None:
    for state in ("pending", "running", "stopped"):
        with pytest.raises(volume.NotOurs, match="i-old is a head node of this cluster, and this machine must not"):
            volume.next_move(None, other(state), ME, wanted=False)


ABSENT = Path("/dev/disk/by-id/no-such-volume")
CLUSTER = fleet.Fleet("GpuCluster", "gpucluster.internal", "/gpucluster/GpuCluster/", ())
OTHERS = [
    {"Name": "tag:gpucluster:cluster", "Values": ["GpuCluster"]},
    {"Name": "tag:gpucluster:role", "Values": ["head"]},
    {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped", "shutting-down"]},
]


def instances(*states: tuple[str, str, str]) -> dict[str, Any]:
    """An answer of DescribeInstances: id, generation and state of each."""
    return {
        "Reservations": [
            {
                "Instances": [
                    {
                        "InstanceId": instance_id,
                        "State": {"Name": state},
                        "Tags": [
                            {"Key": "gpucluster:cluster", "Value": "GpuCluster"},
                            {"Key": "gpucluster:role", "Value": "head"},
                            {"Key": "gpucluster:generation", "Value": generation},
                        ],
                    }
                ]
            }
            for instance_id, generation, state in states
        ]
    }


@dataclass
class Played:
    """EC2 and Parameter Store with queued answers, and a clock that only `sleep` moves."""

    ec2: Stubber
    ssm: Stubber
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += 60

    def looks(self, *attached: dict[str, str]) -> None:
        """The calls of every step: what the volume's attachments are."""
        self.parameter("head", {"volume_id": "vol-1", "device": "/dev/sdf"})
        self.ec2.add_response("describe_instances", instances(("i-new", "2", "running")), {"InstanceIds": ["i-new"]})
        volumes = {"Volumes": [{"Attachments": list(attached)}]}
        self.ec2.add_response("describe_volumes", volumes, {"VolumeIds": ["vol-1"]})

    def finds(self, state: str) -> None:
        """The calls of a step while the old head node has the volume."""
        self.looks(attachment("i-old"))
        self.ec2.add_response("describe_instances", instances(("i-old", "1", state)), {"InstanceIds": ["i-old"]})
        self.parameter("bundle", {"head_generation": "2"})

    def lists(self, *heads: tuple[str, str, str]) -> None:
        """The call of a step while nobody has the volume."""
        self.looks()
        self.ec2.add_response("describe_instances", instances(("i-new", "2", "running"), *heads), {"Filters": OTHERS})

    def parameter(self, name: str, value: dict[str, str]) -> None:
        answer = {"Parameter": {"Value": json.dumps(value)}}
        self.ssm.add_response("get_parameter", answer, {"Name": f"/gpucluster/GpuCluster/{name}"})

    def stops(self, **force: bool) -> None:
        self.ec2.add_response("stop_instances", {}, {"InstanceIds": ["i-old"], **force})

    def attaches(self) -> None:
        self.ec2.add_response("attach_volume", {}, {"VolumeId": "vol-1", "InstanceId": "i-new", "Device": "/dev/sdf"})
        self.looks(attachment("i-new"))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    keys = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    clients = {service: boto3.client(service, **keys) for service in ("ec2", "ssm")}
    found = Played(Stubber(clients["ec2"]), Stubber(clients["ssm"]))
    monkeypatch.setattr(volume, "client", clients.get)
    monkeypatch.setattr(volume, "time", found)
    monkeypatch.setattr(volume.imds, "instance_id", lambda: "i-new")
    with found.ec2, found.ssm:
        yield found
    for stubber in (found.ec2, found.ssm):
        stubber.assert_no_pending_responses()


def test_the_first_head_makes_one_call_to_find_that_it_is_alone(played: Played) -> None:
    played.lists()
    played.attaches()
    volume.attach(CLUSTER, ABSENT)


def test_an_old_head_without_the_volume_is_stopped_before_the_new_one_attaches_it(played: Played) -> None:
    """Somebody detached the volume, then replaced the head node: two slurmctld would act on the same nodes."""
    for state in ("running", "stopping", "stopped"):
        played.lists(("i-old", "1", state))
        played.parameter("bundle", {"head_generation": "2"})
        if state == "running":
            played.stops()
    played.attaches()
    volume.attach(CLUSTER, ABSENT)


@pytest.mark.parametrize(
    ("states", "most"),
    [
        (("shutting-down", "pending", "running"), "running"),
        (("stopped", "shutting-down", "stopping", "pending"), "pending"),
        (("stopped", "shutting-down", "stopping"), "stopping"),
        (("stopped", "shutting-down"), "shutting-down"),
        (("stopped",), "stopped"),
    ],
)
def test_of_several_old_heads_the_one_that_still_acts_most_is_the_first(
    monkeypatch: pytest.MonkeyPatch, states: tuple[str, ...], most: str
) -> None:
    """It is stopped while another one terminates, and not only afterwards."""
    monkeypatch.setattr(heads, "others", lambda ec2, cluster, me: [other(state) for state in states])
    assert volume.Takeover(CLUSTER)._other(None, None, ME) == other(most)


def test_a_head_that_does_not_stop_is_stopped_by_force_once(played: Played) -> None:
    """The played clock moves by a minute in each step."""
    played.finds("running")
    played.stops()
    for _ in range(6):
        played.finds("stopping")
    played.stops(Force=True)
    played.finds("stopping")
    played.finds("stopped")
    played.ec2.add_response("detach_volume", {}, {"VolumeId": "vol-1", "InstanceId": "i-old"})
    played.lists(("i-old", "1", "stopped"))
    played.parameter("bundle", {"head_generation": "2"})
    played.attaches()
    volume.attach(CLUSTER, ABSENT)


def test_a_head_that_has_the_device_asks_nobody(played: Played, tmp_path: Path) -> None:
    """It restarts while AWS's API is down. A volume is attached to one machine only."""
    volume.attach(CLUSTER, tmp_path)


SAY_NOTHING = {
    "EC2 fails": ("ec2", "describe_instances", "InternalError", 500),
    "EC2 throttles": ("ec2", "describe_instances", "RequestLimitExceeded", 503),
    "EC2 is down": ("ec2", "describe_instances", "Unavailable", 503),
    "EC2's clock and this machine's differ": ("ec2", "describe_instances", "RequestExpired", 400),
    "Parameter Store throttles": ("ssm", "get_parameter", "ThrottlingException", 400),
    "Parameter Store fails": ("ssm", "get_parameter", "InternalServerError", 500),
    "the credentials have expired": ("ssm", "get_parameter", "ExpiredTokenException", 400),
}
"""EC2's error codes (ec2-api reference, errors-overview): server errors have a status of 500 and more. GetParameter's
errors and AWS's common errors are in the reference of Systems Manager."""


@pytest.mark.parametrize(("service", "call", "code", "status"), SAY_NOTHING.values(), ids=SAY_NOTHING)
def test_an_error_that_says_nothing_about_the_request_is_repeated(
    played: Played, service: str, call: str, code: str, status: int
) -> None:
    if service == "ec2":
        played.parameter("head", {"volume_id": "vol-1", "device": "/dev/sdf"})
    getattr(played, service).add_client_error(call, code, http_status_code=status)
    played.looks(attachment("i-new"))
    volume.attach(CLUSTER, ABSENT)


def test_an_error_about_the_request_is_raised_at_once(played: Played) -> None:
    played.ssm.add_client_error("get_parameter", "AccessDeniedException")
    with pytest.raises(ClientError, match="AccessDenied"):
        volume.attach(CLUSTER, ABSENT)


def test_the_program_says_in_its_status_that_another_machine_has_the_volume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then attach-volume does not try again."""

    def refuse(cluster: fleet.Fleet, device: Path) -> None:
        raise volume.NotOurs("i-old has the data volume")

    monkeypatch.setattr(volume, "attach", refuse)
    monkeypatch.setattr(fleet, "load", lambda: CLUSTER)
    monkeypatch.setattr("sys.argv", ["volume", "attach", "/dev/x"])
    with pytest.raises(SystemExit) as ended:
        volume.main()
    assert ended.value.code == volume.NOT_OURS_STATUS
    assert capsys.readouterr().err.endswith("i-old has the data volume\n")


@pytest.mark.parametrize(("before", "again"), [(None, False), ("i-new", False), ("i-old", True)])
def test_only_a_new_head_applies_the_bundle_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None, again: bool
) -> None:
    """The compute nodes stay: their jobs go on."""
    monkeypatch.setattr(volume.imds, "instance_id", lambda: "i-new")
    owner = tmp_path / "head-instance"
    if before:
        owner.write_text(f"{before}\n")
    cluster = fleet.Fleet("GpuCluster", "gpucluster.internal", "/gpucluster/GpuCluster/", (), str(tmp_path))
    volume.inherit(cluster, tmp_path / "again")
    assert (tmp_path / "again").exists() is again
    assert owner.read_text() == "i-new\n"


@pytest.mark.parametrize(("scope", "ends"), [("cluster", 1), ("job", 0)])
def test_nodes_whose_beegfs_was_lost_with_the_head_are_terminated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str, ends: int
) -> None:
    released: list[fleet.Fleet] = []
    monkeypatch.setattr(volume, "release", released.append)
    monkeypatch.setattr(volume.imds, "instance_id", lambda: "i-new")
    (tmp_path / "head-instance").write_text("i-old\n")
    (tmp_path / "beegfs.json").write_text(f'{{"scope": "{scope}"}}')
    cluster = fleet.Fleet("GpuCluster", "gpucluster.internal", "/gpucluster/GpuCluster/", (), str(tmp_path))
    volume.inherit(cluster, tmp_path / "again", tmp_path)
    assert len(released) == ends


def test_a_further_volume_gets_the_first_free_device_name(monkeypatch: pytest.MonkeyPatch) -> None:
    client = boto3.client("ec2", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    stub = Stubber(client)
    devices = ["/dev/sda1", "/dev/sdf", "/dev/sdg"]
    stub.add_response(
        "describe_volumes",
        {"Volumes": [{"Attachments": [{"Device": each}]} for each in devices]},
        {"Filters": [{"Name": "attachment.instance-id", "Values": ["i-new"]}]},
    )
    full = [{"Attachments": [{"Device": f"/dev/sd{letter}"}]} for letter in "fghijklmnop"]
    stub.add_response("describe_volumes", {"Volumes": full})
    with stub:
        assert volume.free_device(client, "i-new") == "/dev/sdh"
        with pytest.raises(volume.NotOurs, match="no device name left"):
            volume.free_device(client, "i-new")


def test_a_machine_of_others_keeps_a_volume_that_is_named() -> None:
    with pytest.raises(volume.NotOurs, match="i-old has vol-1, and this machine must not take the volume"):
        volume.next_move(attachment("i-old"), other(cluster="Another"), ME, wanted=True, volume="vol-1")
