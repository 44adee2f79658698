"""The metadata tree and its tokens, without a socket."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from localcloud.machines import imds, imds_tree
from localcloud.machines.spec import Credentials, Hardware, InstanceSpec, Interface

SPEC = InstanceSpec(
    instance_id="i-0123456789abcdef0",
    image_id="ami-0fedcba9876543210",
    instance_type="p4d.24xlarge",
    hardware=Hardware(96, 1179648, 8, "NVIDIA A100-SXM4-40GB", 40960, 4),
    user_data=b"\x1f\x8b\xff\x00binary",
    account_id="123456789012",
    region="us-east-1",
    availability_zone="us-east-1b",
    vpc_id="vpc-1",
    vpc_cidr="10.0.0.0/16",
    subnet_id="subnet-1",
    subnet_cidr="10.0.1.0/24",
    public=False,
    internet=True,
    interfaces=(
        Interface("eni-1", "02:00:00:00:00:01", "10.0.1.2", 0, 0, "efa", ("sg-1", "sg-2")),
        Interface("eni-2", "02:00:00:00:00:02", None, 1, 1, "efa-only", ("sg-1",)),
    ),
)


class Stub:
    spot: str | None = None
    events: list[dict[str, str]] = []
    keys: tuple[str, ...] = ()

    def tags(self, instance_id: str) -> Mapping[str, str]:
        return {"Name": "one", "team": "zwölf"}

    def credentials(self, instance_id: str) -> Credentials | None:
        return Credentials("node", "ASIA1", "hidden", "session", "2099-01-01T00:00:00Z")

    def instance_profile_arn(self, instance_id: str) -> str | None:
        return "arn:aws:iam::123456789012:instance-profile/node"

    def ssh_keys(self, instance_id: str, os_user: str) -> list[str]:
        return list(self.keys) if os_user == "ubuntu" else []

    def spot_interruption(self, instance_id: str) -> str | None:
        return self.spot

    def scheduled_events(self, instance_id: str) -> list[dict[str, str]]:
        return self.events

    def clock_ahead_s(self, instance_id: str) -> float:
        return 0.0

    def has_no_metadata(self, instance_id: str) -> bool:
        return False

    def dns_delay_s(self) -> float:
        return 0.0

    def survives_shutdown(self, instance_id: str) -> bool:
        return False

    def resolve(self, vpc_id: str, name: str, record_type: str) -> list[str] | None:
        return None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/latest/meta-data/instance-id", "i-0123456789abcdef0"),
        ("/latest/meta-data/instance-id/", "i-0123456789abcdef0"),
        ("/2021-03-23/meta-data/instance-type", "p4d.24xlarge"),
        ("/latest/meta-data/local-hostname", "ip-10-0-1-2.ec2.internal"),
        ("/latest/meta-data/placement/", "availability-zone\nregion"),
        ("/latest/meta-data/network/interfaces/macs", "02:00:00:00:00:01/\n02:00:00:00:00:02/"),
        ("/latest/meta-data/network/interfaces/macs/02:00:00:00:00:02/vpc-id", "vpc-1"),
        ("/latest/meta-data/network/interfaces/macs/02:00:00:00:00:02/device-number", "1"),
        ("/latest/meta-data/network/interfaces/macs/02:00:00:00:00:01/local-ipv4s", "10.0.1.2"),
        ("/latest/meta-data/network/interfaces/macs/02:00:00:00:00:01/vpc-ipv4-cidr-block", "10.0.0.0/16"),
        ("/latest/meta-data/iam/security-credentials/", "node"),
        ("/latest/meta-data/services/domain", "amazonaws.com"),
        ("/latest/dynamic/instance-identity/", "document"),
        ("/latest/", "dynamic/\nmeta-data/\nuser-data"),
    ],
)
def test_tree_answers(path: str, text: str) -> None:
    assert imds.read(SPEC, Stub(), path) == (200, text)


@pytest.mark.parametrize(
    "path",
    [
        "/latest/meta-data/nothing",
        "/latest/meta-data/spot/instance-action",
        "/latest/meta-data/tags/instance/Name",
        "/latest/meta-data/public-ipv4",
        "/latest/meta-data/managed-ssh-keys/active-keys/ubuntu/",
        "/newest/meta-data/instance-id",
        "/latest/meta-data/network/interfaces/macs/02:00:00:00:00:02/local-ipv4s",
    ],
)
def test_absent_paths_are_404(path: str) -> None:
    assert imds.read(SPEC, Stub(), path) == (404, "")


def test_tags_show_only_where_the_instance_asks_for_them() -> None:
    spec = dataclasses.replace(SPEC, instance_metadata_tags=True)
    assert imds.read(spec, Stub(), "/latest/meta-data/tags/instance/team") == (200, "zwölf")


def test_credentials_and_identity_are_json() -> None:
    _, text = imds.read(SPEC, Stub(), "/latest/meta-data/iam/security-credentials/node")
    assert json.loads(text)["SecretAccessKey"] == "hidden"
    _, text = imds.read(SPEC, Stub(), "/latest/dynamic/instance-identity/document")
    assert (json.loads(text)["region"], json.loads(text)["privateIp"]) == ("us-east-1", "10.0.1.2")


def test_user_data_survives_byte_for_byte() -> None:
    _, text = imds.read(SPEC, Stub(), "/latest/user-data")
    assert text.encode("latin-1") == SPEC.user_data


def test_no_user_data_is_404() -> None:
    assert imds.read(dataclasses.replace(SPEC, user_data=b""), Stub(), "/latest/user-data") == (404, "")


@pytest.mark.parametrize("life_cycle", ["on-demand", "spot", "capacity-block"])
def test_the_metadata_show_how_an_instance_was_bought(life_cycle: str) -> None:
    spec = dataclasses.replace(SPEC, life_cycle=life_cycle)
    assert imds.read(spec, Stub(), "/latest/meta-data/instance-life-cycle") == (200, life_cycle)


def test_spot_interruption_shows_when_it_is_pending() -> None:
    stub = Stub()
    stub.spot = "2030-01-01T00:00:00Z"
    _, text = imds.read(SPEC, stub, "/latest/meta-data/spot/instance-action")
    assert json.loads(text) == {"action": "terminate", "time": "2030-01-01T00:00:00Z"}


def test_scheduled_events_show_while_there_are_any() -> None:
    stub, path = Stub(), "/latest/meta-data/events/maintenance/scheduled"
    assert imds.read(SPEC, stub, path)[0] == 404
    stub.events = [{"NotBefore": "21 Jan 2019 09:00:43 GMT", "Code": "system-reboot"}]
    assert json.loads(imds.read(SPEC, stub, path)[1]) == stub.events


def test_pushed_keys_are_listed_by_user_one_per_line() -> None:
    stub = Stub()
    stub.keys = ("ssh-ed25519 A", "ssh-ed25519 B")
    path = "/latest/meta-data/managed-ssh-keys/active-keys/"
    assert imds.read(SPEC, stub, f"{path}ubuntu/") == (200, "ssh-ed25519 A\nssh-ed25519 B\n")
    assert imds.read(SPEC, stub, f"{path}root/") == (404, "")


def test_token_is_good_for_its_instance_until_it_expires() -> None:
    now = [0.0]
    tokens = imds.Tokens(clock=lambda: now[0])
    token = tokens.grant("i-1", 60)
    assert tokens.allow("i-1", token)
    assert not tokens.allow("i-2", token)
    assert not tokens.allow("i-1", None)
    now[0] = 60.0
    assert not tokens.allow("i-1", token)


def test_tokens_that_are_granted_at_once_are_all_valid() -> None:
    """As when 48 nodes boot."""
    tokens = imds.Tokens()
    with ThreadPoolExecutor(8) as pool:
        granted = list(pool.map(lambda _: tokens.grant("i-1", 60), range(4000)))
    assert [token for token in granted if not tokens.allow("i-1", token)] == []


def test_listing_of_a_leaf_and_a_folder_differ() -> None:
    tree = {"a/b": "1", "a/c/d": "2"}
    assert imds_tree.listing_or_leaf(tree, "a/") == "b\nc/"
    assert imds_tree.listing_or_leaf(tree, "a/b") == "1"
    assert imds_tree.listing_or_leaf(tree, "x") is None
