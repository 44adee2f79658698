"""Optimizations must not change the answers, nor which calls wait for which."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaits
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import moto.backends
import pytest
from botocore.model import ListShape, MapShape, Shape, StructureShape
from moto.core import serialize
from moto.core.serialize import EC2Serializer
from moto.core.utils import get_service_model
from moto.ec2.exceptions import InvalidInstanceIdError
from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import InstanceBackend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from localcloud.api.dispatch import Dispatcher
from localcloud.clients import ACCOUNT_ID
from localcloud.ec2 import shown
from localcloud.testing.virtual_time import cloud as local

FILTERS: list[dict[str, list[str]]] = [
    {},
    {"resource-id": ["I"]},
    {"resource-id": ["I", "i-none"], "key": ["name"]},
    {"resource-id": ["I"], "value": ["n*"], "resource-type": ["instance"]},
    {"resource-id": ["i-*"]},
    {"key": ["group"]},
]
READS: list[tuple[str, dict[str, Any]]] = [
    ("describe_instances", {}),
    ("describe_instances", {"Filters": [{"Name": "tag:name", "Values": ["node-1"]}], "MaxResults": 5}),
    ("describe_instances", {"Filters": [{"Name": "tag:name", "Values": ["nobody"]}]}),
    ("describe_instance_status", {"IncludeAllInstances": True}),
    ("describe_images", {"Owners": ["898082745236"]}),
    ("describe_instance_types", {"InstanceTypes": ["p5.48xlarge", "m5.large"]}),
    ("describe_launch_template_versions", {"LaunchTemplateName": "template"}),
    ("describe_network_interfaces", {}),
    ("describe_security_groups", {}),
    ("describe_subnets", {}),
    ("describe_tags", {}),
    ("describe_volumes", {}),
    ("describe_vpcs", {}),
    ("describe_availability_zones", {}),
]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.Cloud]:
    with local.made(tmp_path_factory.mktemp("cloud"), pace="") as cloud:
        ec2 = cloud.client("ec2")
        image_id = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        names = [{"Key": "name", "Value": "node-1"}, {"Key": "group", "Value": "<a> & b"}]
        ec2.run_instances(
            ImageId=image_id, InstanceType="m5.large", MinCount=2, MaxCount=2,
            TagSpecifications=[{"ResourceType": "instance", "Tags": names}],
        )  # fmt: skip
        data = {"ImageId": image_id, "InstanceType": "g5.xlarge", "UserData": "aGVsbG8="}
        ec2.create_launch_template(LaunchTemplateName="template", LaunchTemplateData=data)
        yield cloud


def answer(cloud: local.Cloud, call: str, request: dict[str, Any]) -> str:
    """Its XML without the parts that differ in each answer."""
    texts: list[bytes] = []
    ec2 = cloud.client("ec2")
    ec2.meta.events.register("before-parse.ec2", lambda response_dict, **_: texts.append(response_dict["body"]), "keep")
    try:
        getattr(ec2, call)(**request)
    finally:
        ec2.meta.events.unregister("before-parse.ec2", unique_id="keep")
    root = ElementTree.fromstring(texts[0])
    for element in list(root):
        if element.tag.endswith("requestId"):
            root.remove(element)
    return ElementTree.canonicalize(ElementTree.tostring(root), strip_text=True)


@pytest.mark.parametrize(("call", "request_"), READS)
def test_the_quick_serializer_writes_the_same_as_motos(
    cloud: local.Cloud, monkeypatch: pytest.MonkeyPatch, call: str, request_: dict[str, Any]
) -> None:
    quick = answer(cloud, call, request_)
    monkeypatch.setitem(serialize.SERIALIZERS, "ec2", EC2Serializer)
    assert quick == answer(cloud, call, request_)
    assert len(quick) > 100


def test_the_quick_serializer_knows_every_type_in_ec2s_answers() -> None:
    model, seen = get_service_model("ec2"), set[str]()

    def look(shape: Shape) -> None:
        if shape.name in seen:
            return
        seen.add(shape.name)
        assert not isinstance(shape, MapShape), shape.name
        assert not shape.serialization.get("flattened"), shape.name
        inner = list(shape.members.values()) if isinstance(shape, StructureShape) else []
        for each in [*inner, *([shape.member] if isinstance(shape, ListShape) else [])]:
            look(each)

    for name in model.operation_names:
        if output := model.operation_model(name).output_shape:
            look(output)
    assert len(seen) > 1000


@pytest.mark.parametrize("filters", FILTERS)
def test_tags_are_found_as_moto_finds_them(cloud: local.Cloud, filters: dict[str, list[str]]) -> None:
    backend = ec2_backends[ACCOUNT_ID]["us-east-1"]
    (instance_id, *_) = [each.id for each in backend.all_instances()]
    wanted = {name: [instance_id if value == "I" else value for value in values] for name, values in filters.items()}
    found = backend.describe_tags(wanted or None)
    assert found == shown._describe_tags(backend, wanted or None)  # type: ignore[arg-type]
    assert found


def test_new_instances_are_found_without_the_list_of_all(cloud: local.Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    listed = InstanceBackend.all_instances
    monkeypatch.setattr(InstanceBackend, "all_instances", lambda *given: calls.append(given) or listed(*given))
    ec2 = cloud.client("ec2")
    (image, *_) = ec2.describe_images(Owners=["amazon"])["Images"]
    asked = []
    for count in (1, 5):
        calls.clear()
        launched = ec2.run_instances(ImageId=image["ImageId"], InstanceType="m5.large", MinCount=count, MaxCount=count)
        asked.append(len(calls))
    assert asked[0] == asked[1]
    backend = ec2_backends[ACCOUNT_ID]["us-east-1"]
    for each in launched["Instances"]:
        assert backend.get_instance(each["InstanceId"]).id == each["InstanceId"]
        assert backend.get_instance_by_id(each["InstanceId"]) is backend.get_instance(each["InstanceId"])
    assert backend.get_instance_by_id("i-0123456789abcdef0") is None
    with pytest.raises(InvalidInstanceIdError):
        backend.get_instance("i-0123456789abcdef0")


def test_a_host_is_dispatched_as_moto_dispatches_it() -> None:
    ours, theirs = Dispatcher(create_backend_app), DomainDispatcherApplication(create_backend_app)
    for host in ("ec2.us-east-1.amazonaws.com", "s3", "bucket.s3.amazonaws.com", "moto_api", "nobody", None):
        for _ in range(2):
            assert ours.get_backend_for_host(host) == theirs.get_backend_for_host(host)


def test_a_second_request_does_not_inspect_motos_classes_and_folders(
    cloud: local.Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssm = cloud.client("ssm")
    ssm.describe_parameters()
    for module, name in ((moto.backends, "list_of_moto_modules"), (inspect, "getmembers")):
        monkeypatch.setattr(module, name, Mock(side_effect=AssertionError(f"{name} was called again")))
    assert "Parameters" in ssm.describe_parameters()


@pytest.mark.parametrize(
    ("service", "call", "request_", "waits"),
    [
        ("sts", "get_caller_identity", {}, False),
        ("ssm", "get_parameter", {"Name": "/aws/service/global-infrastructure/regions/us-east-1"}, False),
        ("ec2", "describe_vpcs", {}, True),
        ("iam", "list_roles", {}, True),
        ("sts", "get_session_token", {}, True),
    ],
)
def test_which_calls_wait_for_a_call_of_ec2(
    cloud: local.Cloud, service: str, call: str, request_: dict[str, Any], waits: bool
) -> None:
    client, at_work, done = cloud.client(service), threading.Event(), threading.Event()

    def work() -> None:
        with cloud.runtime.locks.holding("ec2", "DescribeInstances"):
            at_work.set()
            done.wait(20)

    with ThreadPoolExecutor(2) as pool:
        pool.submit(work)
        at_work.wait(20)
        asked = pool.submit(getattr(client, call), **request_)
        try:
            if waits:
                with pytest.raises(StillWaits):
                    asked.result(0.3)
            else:
                asked.result(20)
        finally:
            done.set()
