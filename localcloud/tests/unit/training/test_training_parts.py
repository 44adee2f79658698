"""Parts of training jobs: which objects a host reads, pipes, /opt/ml, states, lists, metrics, archives."""

from __future__ import annotations

import datetime
import json
import re
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from localcloud.faults import Faults, parse
from localcloud.machines import nspawn
from localcloud.machines.nspawn import Bind
from localcloud.machines.spec import Container
from localcloud.testing import patience
from localcloud.training import data, hosts, jobs, layout, listing, logs, quotas, refusals, store
from localcloud.training.data import Channel, Object, Unreadable
from localcloud.training.jobs import Job
from localcloud.training.pipes import Pipe

KEYS = ["train/", "train/a", "train/sub/b", "training/c", "other/d"]


def request(**more: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "job",
        "RoleArn": "arn:aws:iam::123456789012:role/trainer",
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 3},
        "OutputDataConfig": {"S3OutputPath": "s3://b/out/"},
    } | more


def job(**more: Any) -> Job:
    name = more.get("TrainingJobName", "job")
    return Job(request(**more), "us-east-1", f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}")


def channel(mode: str = "File", seed: int | None = None, **source: str) -> Channel:
    return Channel("train", mode, {"S3Uri": "s3://b/train/"} | source, seed=seed)


@pytest.mark.parametrize(
    ("uri", "paths"),
    [
        ("s3://b/train/", ["a", "sub/b"]),
        ("s3://b/train", ["a", "sub/b", "ing/c"]),  # a prefix of keys, not a folder
        ("s3://b/train/a", ["a"]),
        ("s3://b/none/", []),
        ("s3://b", ["other/d", "train/a", "train/sub/b", "training/c"]),
    ],
)
def test_a_prefix_gives_files_below_the_channel(uri: str, paths: list[str]) -> None:
    assert sorted(found.path for found in data.below(uri, KEYS)) == sorted(paths)


def test_a_key_with_an_empty_part_is_refused_in_awss_words() -> None:
    with pytest.raises(Unreadable, match="has an illegal char sub-sequence '//' in it"):
        data.below("s3://b/train/", ["train//a"])


def test_a_manifest_names_objects_of_one_prefix() -> None:
    found = data.manifest("s3://b/m", '[{"prefix": "s3://b/x/"}, "1", "deep/2"]')
    assert [(each.uri, each.path) for each in found] == [("s3://b/x/1", "1"), ("s3://b/x/deep/2", "deep/2")]
    for text in ("{}", "[]", '["a"]', "no"):
        with pytest.raises(Unreadable, match="Invalid manifest file s3://b/m"):
            data.manifest("s3://b/m", text)


OBJECTS = [Object("b", f"train/{number}", str(number)) for number in range(10)]


@pytest.mark.parametrize("mode", ["File", "FastFile", "Pipe"])
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_shards_are_equal_and_every_object_is_in_one(mode: str, seed: int | None, count: int) -> None:
    sharded = channel(mode, seed, S3DataDistributionType="ShardedByS3Key")
    for epoch in range(3):
        shares = [data.share(OBJECTS, sharded, host, count, epoch) for host in range(count)]
        assert Counter(found for share in shares for found in share) == Counter(OBJECTS)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("mode", "seed", "sharded", "same_at_every_epoch", "in_order"),
    [
        ("Pipe", 7, False, False, False),
        ("Pipe", 7, True, False, False),
        ("Pipe", None, False, True, True),
        ("File", 7, False, True, True),  # a seed only changes which host has which object
        ("File", 7, True, True, False),
    ],
)
def test_a_seed_shuffles_pipes_at_every_epoch(
    mode: str, seed: int | None, sharded: bool, same_at_every_epoch: bool, in_order: bool
) -> None:
    given = channel(mode, seed, **({"S3DataDistributionType": "ShardedByS3Key"} if sharded else {}))
    epochs = [data.share(OBJECTS, given, 0, 2, epoch) for epoch in range(4)]
    assert epochs == [data.share(OBJECTS, given, 0, 2, epoch) for epoch in range(4)]
    assert all(epoch == epochs[0] for epoch in epochs) is same_at_every_epoch
    assert (epochs[0] == (OBJECTS[::2] if sharded else OBJECTS)) is in_order


def test_a_record_has_its_length_and_ends_at_a_border_of_four() -> None:
    """As dmlc-core's recordio.h has it."""
    for content in (b"", b"abc", b"abcd", b"abcde"):
        packed = data.record(content)
        magic, length = struct.unpack("<II", packed[:8])
        assert (magic, length) == (0xCED7230A, len(content)) and len(packed) % 4 == 0
        assert packed[8 : 8 + length] == content


def test_a_pipes_next_fifo_appears_when_the_last_is_read(tmp_path: Path) -> None:
    def epoch(number: int) -> Iterator[bytes]:
        yield b"epoch "
        yield str(number).encode() * 200_000  # more than a pipe holds

    pipe = Pipe(tmp_path, "train", epoch, pytest.fail)
    try:
        for number in range(3):
            path = tmp_path / f"train_{number}"
            patience.wait_for(str(path), path.exists, 10, 0.01)
            assert not (tmp_path / f"train_{number + 1}").exists()
            assert path.read_bytes() == b"epoch " + str(number).encode() * 200_000
        path = tmp_path / "train_3"
        patience.wait_for(str(path), path.exists, 10, 0.01)
        with path.open("rb") as reader:  # closes early: the next epoch follows
            assert reader.read(6) == b"epoch "
        patience.wait_for("the next epoch", (tmp_path / "train_4").exists, 10, 0.01)
    finally:
        pipe.close()


@pytest.mark.parametrize("reads", [False, True])
def test_a_pipe_closes_whether_or_not_somebody_reads(tmp_path: Path, reads: bool) -> None:
    pipe = Pipe(tmp_path, "train", lambda number: [bytes(10_000_000)], pytest.fail)
    reader = (tmp_path / "train_0").open("rb") if reads else None
    closing = threading.Thread(target=pipe.close)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    if reader:
        reader.close()


def test_a_pipe_that_cannot_read_its_objects_says_so(tmp_path: Path) -> None:
    def epoch(number: int) -> Iterator[bytes]:
        raise Unreadable("Data download failed:no")
        yield b""

    said: list[str] = []
    pipe = Pipe(tmp_path, "train", epoch, said.append)
    (tmp_path / "train_0").read_bytes()
    pipe.close()
    assert said == ["Data download failed:no"]


def test_the_three_files_describe_the_job() -> None:
    channels = [channel("FastFile"), Channel("eval", "Pipe", {"S3Uri": "s3://b/e"}, "text/csv", record_io=True)]
    files = layout.files(job(HyperParameters={"epochs": "3"}), channels, "algo-2")
    assert files["hyperparameters.json"] == {"epochs": "3"}
    usual = {"S3DistributionType": "FullyReplicated"}
    assert files["inputdataconfig.json"] == {
        "train": {"TrainingInputMode": "File", "RecordWrapperType": "None"} | usual,
        "eval": {"TrainingInputMode": "Pipe", "RecordWrapperType": "RecordIO", "ContentType": "text/csv"} | usual,
    }
    resources = files["resourceconfig.json"]
    assert (resources["current_host"], resources["hosts"]) == ("algo-2", ["algo-1", "algo-2", "algo-3"])
    assert resources["instance_groups"][0]["hosts"] == resources["hosts"]


@pytest.mark.parametrize(
    ("entry", "arguments", "command"),
    [
        (None, None, ("train",)),
        (None, ["-v"], ("train", "-v")),
        (["/bin/sh", "-c"], ["true"], ("/bin/sh", "-c", "true")),
    ],
)
def test_a_container_runs_train_without_an_entry_point(entry: Any, arguments: Any, command: tuple[str, ...]) -> None:
    given = {"ContainerEntrypoint": entry, "ContainerArguments": arguments}
    assert layout.command({"AlgorithmSpecification": given}) == command


def test_the_platforms_variables_win_over_the_jobs() -> None:
    given = layout.environment(job(Environment={"A": "1", "TRAINING_JOB_NAME": "x"}), "/v2/credentials/1")
    assert given["A"] == "1" and given["TRAINING_JOB_NAME"] == "job"
    assert given["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] == "/v2/credentials/1"


def test_folders_outside_of_opt_ml_are_mounted_too(tmp_path: Path) -> None:
    place = layout.Place(tmp_path / "ml", tmp_path / "others")
    given = request(CheckpointConfig={"S3Uri": "s3://b/c", "LocalPath": "/state/x"}, TensorBoardOutputConfig={})
    assert set(layout.folders(place, given, [channel("FastFile"), Channel("eval", "File", {})])) == {
        "/opt/ml", "/state/x", "/opt/ml/input/data/train",
    }  # fmt: skip
    assert place.of("/opt/ml/checkpoints") == tmp_path / "ml/checkpoints"


def test_the_command_of_a_container_keeps_its_words() -> None:
    container = Container(("/bin/sh", "-c", "exit 3; $X"), {"X": "a b='c'"}, {}, host_name="ip-10-0-0-10")
    argv = nspawn.container_argv("i-1", Path("/m/root"), "n", [Bind(Path("/f"), "/opt/ml")], container)
    assert argv[-3:] == ["/bin/sh", "-c", "exit 3; $X"] and "--setenv=X=a b='c'" in argv
    assert {"--as-pid2", "--console=pipe", "--bind=/f:/opt/ml", "--hostname=ip-10-0-0-10"} <= set(argv)


def test_states_have_times_and_only_the_last_message() -> None:
    one = job()
    for status, words in (("Starting", "a"), ("Starting", "b"), ("Downloading", "c"), ("Training", "d")):
        one.move(status, words)
    one.finish("Failed", "Failed", "e", "x" * 2000)
    shown = jobs.described(one)
    states = shown["SecondaryStatusTransitions"]
    assert [(each["Status"], each["StatusMessage"]) for each in states] == [
        ("Starting", "b"), ("Downloading", "c"), ("Training", "d"), ("Failed", "e"),
    ]  # fmt: skip
    assert all(before["EndTime"] == after["StartTime"] for before, after in zip(states, states[1:], strict=False))
    assert (len(shown["FailureReason"]), shown["SecondaryStatus"]) == (1024, "Failed")
    assert shown["TrainingStartTime"] == states[1]["StartTime"] and shown["TrainingEndTime"] == states[-1]["EndTime"]


def test_the_wait_of_an_interrupted_job_is_not_billed(monkeypatch: pytest.MonkeyPatch) -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    moments = iter(range(0, 1000, 10))
    monkeypatch.setattr(jobs, "now", lambda: start + datetime.timedelta(seconds=next(moments)))
    one = job()
    for status in ("Starting", "Downloading", "Training", "Interrupted", "Starting", "Downloading", "Training"):
        one.move(status, "")
    one.finish("Completed", "Completed", "")
    shown = jobs.described(one)
    assert (shown["TrainingTimeInSeconds"], shown["BillableTimeInSeconds"]) == (60, 40)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, ["c-1", "a-2", "b-3"]),
        ({"SortOrder": "Descending"}, ["b-3", "a-2", "c-1"]),
        ({"SortBy": "Name"}, ["a-2", "b-3", "c-1"]),
        ({"SortBy": "Status"}, ["b-3", "c-1", "a-2"]),
        ({"NameContains": "A-"}, ["a-2"]),
        ({"StatusEquals": "Stopping"}, ["a-2"]),
        ({"CreationTimeAfter": 1.5}, ["a-2", "b-3"]),
        ({"CreationTimeBefore": 2.5, "CreationTimeAfter": 1}, ["a-2"]),
        ({"WarmPoolStatusEquals": "Available"}, []),
        ({"MaxResults": 2, "SortBy": "Name"}, ["a-2", "b-3"]),
        ({"MaxResults": 2, "SortBy": "Name", "NextToken": "c-1"}, ["c-1"]),
    ],
)
def test_lists_are_filtered_sorted_and_cut(asked: dict[str, Any], names: list[str]) -> None:
    made = [job(TrainingJobName=name) for name in ("c-1", "a-2", "b-3")]
    for number, one in enumerate(made, 1):
        one.created = datetime.datetime.fromtimestamp(number, datetime.UTC)
    made[1].stop()
    made[2].finish("Completed", "Completed", "")
    found, token = listing.page(made, asked)
    assert [one.name for one in found] == names
    assert token == ("c-1" if asked == {"MaxResults": 2, "SortBy": "Name"} else None)


def test_lines_end_only_where_the_output_has_an_end() -> None:
    lines = logs.Lines()
    assert lines.take(b"one\ntw") == ["one"]
    assert lines.take(b"o\r\nthr\xff") == ["two"]
    assert lines.take(b"", last=True) == ["thr�"]
    assert lines.take(b"", last=True) == []


@pytest.mark.parametrize(
    ("expression", "line", "found"),
    [
        ("loss=([0-9.]+)", "step 3 loss=0.25", [0.25]),
        ("loss=(.*)", "loss=nothing", []),
        ("loss=[0-9.]+", "loss=1", []),  # no group
        ("(a)?loss=([0-9.]+)", "loss=1", []),  # the first group has no value
        ("loss: ([0-9.e-]+)", "loss: 1e-3", [0.001]),
    ],
)
def test_a_metric_is_the_first_group_of_its_expression(expression: str, line: str, found: list[float]) -> None:
    assert [value for _, value in logs.values([("loss", re.compile(expression))], line)] == found


def test_equal_names_of_two_hosts_are_once_in_the_archive(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("algo-1", "algo-2")]
    for folder in folders:
        (folder / "sub").mkdir(parents=True)
        (folder / "weights").write_text(folder.name)
        (folder / "sub" / folder.name).touch()
    found = store.files(folders)
    assert sorted(found) == ["sub/algo-1", "sub/algo-2", "weights"]
    assert found["weights"].read_text() == "algo-1"


@pytest.mark.parametrize(("uri", "found"), [("s3://jobs/lr-1/", ["a"]), ("s3://jobs/lr-1", ["0/a", "a"])])
def test_a_prefix_without_a_slash_restores_other_checkpoints_too(tmp_path: Path, uri: str, found: list[str]) -> None:
    with mock_aws():
        s3 = boto3.client("s3", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        s3.create_bucket(Bucket="jobs")
        for key in ("lr-1/a", "lr-10/a", "lr-2/a"):
            s3.put_object(Bucket="jobs", Key=key, Body=b"1")
        store.Store(lambda service: s3).restore(uri, tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == found


def test_only_changed_files_are_copied(tmp_path: Path) -> None:
    class Put:
        def __init__(self) -> None:
            self.uris: list[str] = []

        def put(self, path: Path, uri: str) -> None:
            self.uris.append(uri)

    (tmp_path / "restored").write_text("1")
    kept: Any = Put()
    copies = store.Copies(kept, [tmp_path], "s3://b/state/")
    copies.copy()
    assert kept.uris == []
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/new").write_text("2")
    (tmp_path / "restored").write_text("12")
    copies.copy()
    copies.copy()
    assert kept.uris == ["s3://b/state/deep/new", "s3://b/state/restored"]


def test_names_resolve_late_and_only_in_their_network(monkeypatch: pytest.MonkeyPatch) -> None:
    one, network, other = job(), hosts.Network(), hosts.Network()
    network.open()
    other.open()
    own = hosts.host_name(one, "algo-2")
    made = network.spec(one, "algo-2", Container((), {}, {}, host_name=own))
    assert (made.interfaces[0].private_ip, own) == ("10.0.0.11", "ip-10-0-0-11.ec2.internal")
    assert made.hardware.gpus == 8 and made.internet
    assert hosts.resolve(network.vpc_id, "algo-2", "A") == []
    assert hosts.resolve(network.vpc_id, own, "A") == ["10.0.0.11"]
    late = time.monotonic() + hosts.NAMES_LATE_S
    monkeypatch.setattr(hosts.time, "monotonic", lambda: late)
    assert hosts.resolve(network.vpc_id, "algo-2", "A") == ["10.0.0.11"]
    assert hosts.resolve(network.vpc_id, "algo-2", "AAAA") == []
    assert hosts.resolve(other.vpc_id, "algo-2", "A") == []
    network.close()
    assert hosts.resolve(network.vpc_id, "algo-2", "A") is None


@pytest.mark.parametrize("by", [quotas.code, str])
@pytest.mark.parametrize(("value", "refused"), [(5, True), (6, False)])
def test_a_quota_counts_instances_of_unfinished_jobs(by: Any, value: int, refused: bool) -> None:
    faults, quota = Faults(), quotas.name("ml.p4d.24xlarge", spot=False)
    faults.add(parse({"kind": "quota", "quota_code": by(quota), "value": value}))
    running, done = job(), job()
    done.finish("Completed", "Completed", "")
    words = quotas.refusal(faults, [running, done, job(EnableManagedSpotTraining=True)], job())
    said = (
        "The account-level service limit 'ml.p4d.24xlarge for training job usage' is 5 Instances, with current "
        "utilization of 3 Instances and a request delta of 3 Instances. Please contact AWS support to request an "
        "increase for this limit."
    )
    assert words == (said if refused else "")


@pytest.mark.parametrize(
    ("principal", "services"),
    [
        ({"Service": "sagemaker.amazonaws.com"}, {"sagemaker.amazonaws.com"}),
        ({"Service": ["a", "b"]}, {"a", "b"}),
        ({"AWS": "arn:aws:iam::1:root"}, set()),
    ],
)
def test_a_trust_policy_names_services(principal: dict[str, Any], services: set[str]) -> None:

    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    assert refusals.trusted(json.dumps({"Statement": [statement]})) == services
    assert refusals.trusted(json.dumps({"Statement": statement | {"Effect": "Deny"}})) == set()
