"""Which channels a job's data becomes on SageMaker, and who reads what of them."""

from __future__ import annotations

import boto3
import pytest
from botocore.stub import Stubber

from gpucluster.errors import JobSpecError
from gpucluster.sagemaker import listing
from gpucluster.sagemaker.limits import faults
from gpucluster.sagemaker.listing import Listed

DATA = "s3://data/train"
OBJECTS = [f"{index:03}.tfrecord" for index in range(96)]


def job(nodes=2, ranks=8, channels="{train: s3://data/train}"):
    size = f"nodes: {nodes}\nntasks_per_node: {ranks}\ntime: 1:00:00\n"
    return f"command: python train.py\n{size}channels: {channels}\n"


def pipe(**more):
    choice = ", ".join(["mode: Pipe", *(f"{key}: {value}" for key, value in more.items())])
    return f"channels: {{train: {{{choice}}}}}\n"


def refused(made, *asked):
    with pytest.raises(JobSpecError) as caught:
        made(*asked)
    return [(each.key, each.message) for each in caught.value.problems]


def inputs(prepared):
    """Channel -> mode, how it is spread, where it is."""
    assert list(faults(prepared.request)) == []
    found = {}
    for each in prepared.request["InputDataConfig"][1:]:
        source = each["DataSource"]["S3DataSource"]
        found[each["ChannelName"]] = (each["InputMode"], source["S3DataDistributionType"], source["S3Uri"])
    return found


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ("s3://data/train", ("FastFile", "FullyReplicated", "s3://data/train/")),
        ("{source: s3://data/train/, mode: stream}", ("FastFile", "FullyReplicated", "s3://data/train/")),
        ("{source: s3://data/train, mode: copy}", ("File", "FullyReplicated", "s3://data/train/")),
        ("{source: s3://data/train, shard: by-node}", ("FastFile", "ShardedByS3Key", "s3://data/train/")),
        ("{source: s3://data/train, shard: none}", ("FastFile", "FullyReplicated", "s3://data/train/")),
    ],
)
def test_ranks_of_a_host_share_one_folder(made, channel, expected):
    objects = {"s3://data/train": OBJECTS, "s3://data/train/": OBJECTS}
    assert inputs(made(job(channels=f"{{train: {channel}}}"), "", objects)) == {"train": expected}


def test_one_host_needs_no_sharding(made):
    found = inputs(made(job(1, channels="{train: {source: s3://data/train, shard: by-node}}"), "", {DATA: OBJECTS}))
    assert found["train"][1] == "FullyReplicated"


def test_fewer_objects_than_hosts(made):
    asked = job(4, channels="{train: {source: s3://data/train, shard: by-node}}")
    ((key, message),) = refused(made, asked, "", {DATA: OBJECTS[:3]})
    assert key == "channels.train.source"
    assert message == "s3://data/train has 3 objects for 4 hosts: some would get none, and cost"
    assert inputs(made(asked, "", {DATA: OBJECTS[:4]}))


def test_a_pipe_per_local_rank_reads_each_object_once(made):
    prepared = made(job(), pipe(shuffle_seed=7), {DATA: OBJECTS})
    place = "s3://bucket-of-mine/gpucluster/train-20261129-102400/manifests"
    assert inputs(prepared) == {
        f"train_{rank}": ("Pipe", "ShardedByS3Key", f"{place}/train_{rank}.json") for rank in range(8)
    }
    manifests = [prepared.planned.manifests[f"{place}/train_{rank}.json"] for rank in range(8)]
    assert all(each[0] == {"prefix": "s3://data/train/"} for each in manifests)
    assert sorted(key for each in manifests for key in each[1:]) == OBJECTS
    assert {each["ShuffleConfig"]["Seed"] for each in prepared.request["InputDataConfig"][1:]} == {7}
    assert prepared.planned.reads[:2] == (
        "train: Pipe, a channel per local rank, by 8 manifests of 96 objects",
        "  train_0: rank 0, 8, about 6 objects each",
    )
    words = prepared.request["AlgorithmSpecification"]["ContainerArguments"]
    assert words[words.index("--channel") + 1] == "train=local-rank"


def test_a_pipe_per_global_rank_of_data_in_numbered_folders(made):
    """The data of text 2: a folder for each of four ranks."""
    objects = [f"{rank}/{index}" for rank in range(4) for index in range(3)]
    prepared = made(job(2, 2), pipe(), {DATA: objects})
    assert inputs(prepared) == {
        f"train_{rank}": ("Pipe", "FullyReplicated", f"s3://data/train/{rank}/") for rank in range(4)
    }
    assert prepared.planned.manifests == {}
    assert prepared.planned.readers == {"train": "global-rank"}
    assert prepared.planned.reads[2] == "  train_1: rank 1, 3 objects"
    assert "a FIFO that nobody reads" in prepared.planned.reads[-1]


def test_a_pipe_needs_an_object_for_each_rank(made):
    assert made(job(4, 4), pipe(), {DATA: OBJECTS[:16]}).planned.readers == {"train": "local-rank"}
    ((_, message),) = refused(made, job(4, 4), pipe(), {DATA: OBJECTS[:15]})
    assert message == "s3://data/train has 15 objects: a channel of 4 would get 3, and needs 4"


def test_a_pipe_per_global_rank_where_it_is_asked_for(made):
    prepared = made(job(2, 4), pipe(per="global-rank"), {DATA: OBJECTS})
    assert [len(each) - 1 for each in prepared.planned.manifests.values()] == [12] * 8
    assert {spread for _, spread, _ in inputs(prepared).values()} == {"FullyReplicated"}


def test_a_rank_per_host_needs_one_pipe(made):
    prepared = made(job(3, 1), pipe(), {DATA: OBJECTS})
    assert inputs(prepared) == {"train": ("Pipe", "ShardedByS3Key", "s3://data/train/")}
    ((_, message),) = refused(made, job(3, 1), pipe(), {DATA: OBJECTS[:2]})
    assert "2 objects for 3 hosts" in message


def test_all_ranks_read_all_objects_of_a_pipe(made):
    asked = job(2, 2, "{train: {source: s3://data/train, shard: none}}")
    assert inputs(made(asked, pipe(), {DATA: OBJECTS})) == {
        f"train_{rank}": ("Pipe", "FullyReplicated", "s3://data/train/") for rank in range(2)
    }


def test_twenty_channels_and_no_more(made):
    """One of them is ours. 21 channels: InputDataConfig of botocore's model has at most 20."""
    names = [f"c{index}" for index in range(20)]
    objects = {f"s3://data/{name}": ["a"] for name in names}
    fits = "{" + ", ".join(f"{name}: s3://data/{name}" for name in names[:19]) + "}"
    assert len(made(job(1, 1, fits), "", objects).request["InputDataConfig"]) == 20
    one_more = "{" + ", ".join(f"{name}: s3://data/{name}" for name in names) + "}"
    ((key, message),) = refused(made, job(1, 1, one_more), "", objects)
    assert key == "channels"
    assert message.startswith("the job needs 21 channels, one of them for gpucluster's own files")


def test_more_ranks_than_channels(made):
    ((key, message),) = refused(made, job(3, 8), pipe(per="global-rank"), {DATA: OBJECTS})
    assert key == "channels.train.mode"
    assert message == "a channel per global rank needs 24, and 19 are left of 20"


@pytest.mark.parametrize(
    ("channels", "more", "objects", "key", "said"),
    [
        ("{train: /fsx/train}", "", None, "channels.train.source", "is on no file system of sagemaker.yaml"),
        ("{train: {task: a, output: b}}", "", None, "channels.train.task", "the project of the task a is not known"),
        ("{gpucluster: s3://data/train}", "", OBJECTS, "channels.gpucluster.source", "the job's own files"),
        ("{train: s3://data/a//b}", "", OBJECTS, "channels.train.source", "SageMaker cannot read keys with //"),
        ("{train: s3://data/train}", "", ["a", "b//c"], "channels.train.source", "keys with //, got /b//c"),
        ("{train: s3://data/train}", "", ["/a", "b"], "channels.train.source", "keys with //, got //a"),
        ("{train: s3://data/train}", "", [], "channels.train.source", "there are no objects under s3://data/train/"),
        (
            "{train: {source: s3://data/train, shard: by-node}}",
            pipe(),
            OBJECTS,
            "channels.train.shard",
            "a FIFO has one reader",
        ),
        (
            "{train: {source: s3://data/train, mode: copy, unpack: tar}}",
            "",
            OBJECTS,
            "channels.train.unpack",
            "SageMaker unpacks no archives",
        ),
        (
            "{train: s3://data/train, train_0: s3://data/train}",
            pipe(),
            OBJECTS,
            "channels",
            "train_0 is the name of two channels",
        ),
    ],
)
def test_data_that_sagemaker_cannot_read(made, channels, more, objects, key, said):
    listed = {} if objects is None else {DATA: objects, "s3://data/a//b": objects}
    ((at, message),) = refused(made, job(channels=channels), more, listed)
    assert at == key
    assert said in message


def test_data_that_a_host_has_no_room_for(made):
    """Otherwise the hosts are billed until SageMaker says: Data download failed:Insufficient disk space."""
    small = "instance_type: ml.m5.xlarge\nvolume_gb: 5\n"
    whole = job(2, 1, "{train: {source: s3://data/train, mode: copy}}")
    ((key, message),) = refused(made, whole, small, {DATA: OBJECTS})
    assert (key, message.partition(":")[0]) == (
        "channels",
        "each host copies 9 GiB or more before it starts, and has 5 GB",
    )
    for fits in (job(2, 1, "{train: {source: s3://data/train, mode: copy, shard: by-node}}"), job(2, 1)):
        made(fits, small, {DATA: OBJECTS})


def test_objects_that_cannot_be_listed(made):
    prepared = made(job(), "channels: {trian: {mode: Pipe}}\n", {DATA: "no credentials"})
    assert prepared.notes == (
        "the objects of channel train were not counted: no credentials",
        "channels of sagemaker.yaml that this job does not have: trian",
    )
    ((_, message),) = refused(made, job(), pipe(), {DATA: "no credentials"})
    assert message.endswith("needs the list of the objects of s3://data/train: no credentials")


def client():
    return boto3.client("s3", "us-east-1", aws_access_key_id="k", aws_secret_access_key="s")


def test_objects_of_all_pages_below_the_prefix():
    with Stubber(s3 := client()) as stub:
        asked = {"Bucket": "data", "Prefix": "train/"}
        first = [{"Key": "train/", "Size": 0}, {"Key": "train/a", "Size": 10}]
        stub.add_response(
            "list_objects_v2", {"Contents": first, "IsTruncated": True, "NextContinuationToken": "n"}, asked
        )
        last = {"Contents": [{"Key": "train/b/c", "Size": 30}], "IsTruncated": False}
        stub.add_response("list_objects_v2", last, asked | {"ContinuationToken": "n"})
        found = listing.read(s3, "s3://data/train", all_of_them=True)
        stub.assert_no_pending_responses()
    assert found == Listed(("a", "b/c"), 40)
    assert found.mean_bytes == 20


def test_a_long_list_is_read_to_its_end_only_for_a_manifest(monkeypatch):
    monkeypatch.setattr(listing, "ENOUGH", 1)
    with Stubber(s3 := client()) as stub:
        page = {"Contents": [{"Key": "train/a", "Size": 1}], "IsTruncated": True, "NextContinuationToken": "n"}
        stub.add_response("list_objects_v2", page, {"Bucket": "data", "Prefix": "train/"})
        assert listing.read(s3, "s3://data/train", all_of_them=False) == Listed(("a",), 1, complete=False)
