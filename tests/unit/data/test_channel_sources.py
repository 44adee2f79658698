"""Finding a channel's shards in a folder and in S3, and reading them as a stream."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from moto.server import ThreadedMotoServer

from gpucluster.job import channels as submitted
from gpucluster_train import channels, streams, tars
from gpucluster_train.channels import ChannelError
from gpucluster_train.prepare import MANY, again, check, in_words, index_of, remarks, summary
from gpucluster_train.sources import Listing, S3Source, listing, s3_errors

ROOT = Path(__file__).resolve().parents[3]


def tar_of(names: list[str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
    return file.getvalue()


@pytest.fixture(scope="module")
def s3_endpoint():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture(params=["folder", "s3"])
def place(request, tmp_path, monkeypatch):
    """put(name, bytes), and the source to which it writes: a folder or S3."""
    if request.param == "folder":

        def put(name, content=b"x"):
            (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "set" / name).write_bytes(content)

        return put, f"{tmp_path}/set"
    endpoint = request.getfixturevalue("s3_endpoint")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    bucket = "b" + "".join(filter(str.isalnum, request.node.name.lower()))[:50]
    s3.create_bucket(Bucket=bucket)
    return (
        lambda name, content=b"x": s3.put_object(Bucket=bucket, Key=f"a/set/{name}", Body=content),
        f"s3://{bucket}/a/set",
    )


def test_every_file_is_a_shard_except_hidden_ones(place):
    put, source = place
    for name in ("b.tar", "a.tar", "deep/c.tar", ".hidden", "_SUCCESS", "x/.part/d.tar"):
        put(name, name.encode())
    found = listing(source)
    assert found.root == source
    assert [(shard.name, shard.size_bytes) for shard in sorted(found.shards, key=lambda shard: shard.name)] == [
        ("a.tar", 5), ("b.tar", 5), ("deep/c.tar", 10),
    ]  # fmt: skip
    assert set(found.versions) == {"a.tar", "b.tar", "deep/c.tar"}
    assert all(found.versions.values())
    assert not found.notes


def test_a_single_file_is_one_shard(place):
    put, source = place
    put("a.tar", b"abc")
    found = listing(f"{source}/a.tar")
    assert (found.root, [(shard.name, shard.size_bytes) for shard in found.shards]) == (source, [("a.tar", 3)])


def denied(*_, **__):
    raise ClientError({"Error": {"Code": "AccessDenied"}}, "ListObjectsV2")


def test_an_object_that_may_be_read_alone_is_one_shard(place, monkeypatch):
    put, source = place
    if source.startswith("s3://"):
        put("a.tar", b"abc")
        monkeypatch.setattr(S3Source, "_objects", denied)  # s3_access names this object and nothing beside it
        found = listing(f"{source}/a.tar")
        assert (found.root, [(shard.name, shard.size_bytes) for shard in found.shards]) == (source, [("a.tar", 3)])
        assert found.versions["a.tar"]


def test_a_prefix_wins_over_an_empty_object_of_its_name(place):
    put, source = place
    if source.startswith("s3://"):
        put("a.tar")
        boto3.client("s3").put_object(Bucket=source.split("/")[2], Key="a/set", Body=b"")
        for name in (source, f"{source}/"):
            assert [shard.name for shard in listing(name).shards] == ["a.tar"]


def test_an_index_belongs_to_its_records(place):
    put, source = place
    for name in ("a.rec", "a.idx", "b.rec", "c.tar", "c.idx", "other.idx"):
        put(name)
    found = listing(source)
    beside = {"a.rec": ("a.idx",), "b.rec": (), "c.tar": ("c.idx",), "other.idx": ()}
    assert {shard.name: shard.beside for shard in found.shards} == beside
    assert {"a.idx", "c.idx"} <= found.versions.keys()


def test_links_are_followed_but_not_in_circles(tmp_path):
    top, big = tmp_path / "set", tmp_path / "big"
    for folder in (top / "deep", big):
        folder.mkdir(parents=True)
    (top / "a.tar").touch()
    (big / "b.tar").touch()
    (top / "part2").symlink_to(big)
    (top / "c.tar").symlink_to(big / "b.tar")
    (top / "deep" / "up").symlink_to(top)
    (big / "back").symlink_to(top)
    (top / "self").symlink_to("self")
    (top / ".lock").symlink_to("nobody@nowhere")
    with pytest.raises(ChannelError, match=f"{top}/self: cannot be read: .*: restore it, or remove the link to it"):
        listing(str(top))
    (top / "self").unlink()
    assert sorted(shard.name for shard in listing(str(top)).shards) == ["a.tar", "c.tar", "part2/b.tar"]
    (top / "gone.tar").symlink_to("nowhere")
    with pytest.raises(ChannelError, match=f"{top}/gone.tar: cannot be read: No such file"):
        listing(str(top))


def manifest(*shards: tuple[str, int, int]) -> bytes:
    listed = [{"name": name, "bytes": size, "samples": count, "sha256": "ab"} for name, size, count in shards]
    return json.dumps({"version": 1, "format": "tar", "shards": listed}).encode()


def test_a_manifest_tells_samples_and_which_files_are_shards(place):
    put, source = place
    for name in ("a.tar", "b.rec", "b.idx", "notes.txt", "samples.jsonl"):
        put(name)
    put("manifest.json", manifest(("a.tar", 1, 7), ("b.rec", 1, 9)))
    found = listing(source)
    shards = {shard.name: (shard.samples, shard.digest, shard.beside) for shard in found.shards}
    assert shards == {"a.tar": (7, "ab", ()), "b.rec": (9, "ab", ("b.idx",))}
    assert found.notes == (f"1 files of {source} are not in its manifest.json and are ignored, first notes.txt",)


@pytest.mark.parametrize(
    ("size", "name", "message"),
    [
        (9, "a.tar", "/a.tar: has 1 bytes, but its manifest.json says 9: it is truncated; copy it again"),
        (0, "a.tar", "/a.tar: has 1 bytes, but its manifest.json says 0: it is another file; copy it again"),
        (
            1,
            "b.tar",
            ": its manifest.json lists 1 shards, but 1 are missing, first b.tar: copy or export the data ",
        ),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(place, size, name, message):
    put, source = place
    put("a.tar")
    put("manifest.json", manifest((name, size, 1)))
    with pytest.raises(ChannelError) as refused:
        listing(source)
    assert str(refused.value).startswith(source + message)


def test_a_manifest_names_the_classes(place):
    put, source = place
    put("a.tar")
    put("manifest.json", json.dumps({**json.loads(manifest(("a.tar", 1, 7))), "classes": ["cat", "dog"]}).encode())
    found = index_of({**ASKED, "source": source}, listing(source), "0", ["n"])
    assert found["classes"] == ["cat", "dog"]


def test_a_manifest_of_another_kind_is_ignored(place):
    put, source = place
    put("a.tar")
    put("manifest.json", b'{"shards": 3}')
    found = listing(source)
    assert [(shard.name, shard.samples) for shard in found.shards] == [("a.tar", None)]
    assert "is not from `gpucluster data shard`" in found.notes[0]


def test_shards_that_are_still_being_made_are_refused(place):
    put, source = place
    put("train/train-000000.tar")
    put("train/.unfinished/plan.json")
    with pytest.raises(ChannelError, match="is incomplete: run the same `gpucluster data shard` again"):
        listing(source)


def test_splits_are_not_mixed(place):
    put, source = place
    for split in ("val", "train"):
        put(f"{split}/{split}-000000.tar")
        put(f"{split}/samples.jsonl")
        put(f"{split}/manifest.json", manifest((f"{split}-000000.tar", 1, 1)))
    with pytest.raises(ChannelError) as refused:
        listing(source)
    assert str(refused.value) == f"{source}: has several data sets: name one of {source}/train, {source}/val"
    assert [shard.name for shard in listing(f"{source}/val").shards] == ["val-000000.tar"]


def test_a_manifest_of_another_kind_in_a_subfolder_is_ignored(place):
    put, source = place
    put("a/a.tar")
    put("a/manifest.json", b"[]")
    assert [shard.name for shard in listing(source).shards] == ["a/a.tar"]


def test_a_missing_source_is_reported_with_the_existing_ones(place):
    put, source = place
    put("a.tar")
    with pytest.raises(ChannelError, match=r"(no such folder|no object has this prefix).*; did you mean set\?"):
        listing(f"{source.removesuffix('set')}sett")
    put("_SUCCESS")
    with pytest.raises(ChannelError, match="has no file that could be a shard"):
        listing(f"{source}/_SUCCESS")


def test_a_bucket_that_is_not_there(place):
    _, source = place
    if source.startswith("s3://"):
        with pytest.raises(
            ChannelError, match="s3://no-such-bucket-1/a: no such bucket: check its name and its region"
        ):
            S3Source("s3://no-such-bucket-1/a").files()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject"), "S3 denies access: s3_access in cluster"),
        (ClientError({"Error": {"Code": "403"}}, "HeadObject"), "S3 denies access: s3_access in cluster.yaml"),
        (NoCredentialsError(), "the job has no credentials for S3: name it in s3_access in cluster.yaml"),
        (ClientError({"Error": {"Code": "SlowDown", "Message": "wait"}}, "GetObject"), "S3 answered SlowDown: "),
    ],
)
def test_s3s_refusals_are_explained(error, said):
    with pytest.raises(ChannelError) as refused, s3_errors("s3://b/a"):
        raise error
    assert str(refused.value).startswith(f"s3://b/a: {said}")


def test_other_errors_than_s3s_are_not_changed():
    with pytest.raises(OSError, match="full"), s3_errors("s3://b/a"):
        raise OSError("disk full")


SAMPLES = ["a/1.cls", "a/1.jpg", "a/2.jpg", "a/2.seg.png"]


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
def test_samples_of_a_tar_file(tmp_path, suffix):
    content = tar_of(SAMPLES)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(content) if suffix == ".tar.gz" else content)
    assert list(streams.of_places([str(path)], tars.samples)) == [
        {"__key__": "a/1", "cls": b"a/1.cls", "jpg": b"a/1.jpg"},
        {"__key__": "a/2", "jpg": b"a/2.jpg", "seg.png": b"a/2.seg.png"},
    ]


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
def test_a_truncated_tar_file_is_always_noticed(tmp_path, suffix):
    content = tar_of(SAMPLES)[: 4 * 1024 + 512]
    whole = gzip.compress(content) if suffix == ".tar.gz" else content
    path = tmp_path / f"a{suffix}"
    path.write_bytes(whole)
    assert len(list(streams.of_places([str(path)], tars.samples))) == 2
    step = 1 if suffix == ".tar.gz" else 128
    for kept in range(0, len(whole) - 7, step):
        path.write_bytes(whole[:kept])
        with pytest.raises(ChannelError, match="is truncated or not a tar file"):
            list(streams.of_places([str(path)], tars.samples))


@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt", "a/../../out.txt"])
def test_no_member_is_unpacked_outside_its_folder(tmp_path, name):
    (tmp_path / "a.tar").write_bytes(tar_of([name]))
    with pytest.raises(ChannelError, match="which would be unpacked outside its folder"):
        tars.unpack(tmp_path / "a.tar", tmp_path / "a", "a.tar")
    assert not (tmp_path / "out.txt").exists()


def linked(path: Path, kind: bytes, target: str) -> None:
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("1.jpg")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"jpg"))
        link = tarfile.TarInfo("b/2.jpg")
        link.type, link.linkname = kind, target
        tar.addfile(link)


def test_a_hard_link_is_unpacked_as_the_file_that_it_is(tmp_path):
    linked(tmp_path / "a.tar", tarfile.LNKTYPE, "1.jpg")
    tars.unpack(tmp_path / "a.tar", tmp_path / "a", "a.tar")
    assert (tmp_path / "a/b/2.jpg").read_bytes() == (tmp_path / "a/1.jpg").read_bytes() == b"jpg"


@pytest.mark.parametrize("target", ["../out.txt", "0.jpg", "b"])
def test_a_hard_link_to_a_file_outside_the_archive_is_refused(tmp_path, target):
    (tmp_path / "out.txt").touch()
    linked(tmp_path / "a.tar", tarfile.LNKTYPE, target)
    with pytest.raises(ChannelError, match="^a.tar: its b/2.jpg is a link to .*, which is not an earlier file"):
        tars.unpack(tmp_path / "a.tar", tmp_path / "a", "a.tar")


def test_no_member_is_silently_left_out(tmp_path):
    path = tmp_path / "a.tar"
    for kind, said in (
        (tarfile.SYMTYPE, "is a symbolic link to 1.jpg: pack it with tar --dereference"),
        (tarfile.FIFOTYPE, "is neither a file nor a folder: pack only files"),
    ):
        linked(path, kind, "1.jpg")
        with pytest.raises(ChannelError, match=f"^a.tar: its b/2.jpg {said}"):
            tars.unpack(path, tmp_path / said[:12], "a.tar")
        with pytest.raises(ChannelError, match=f"^{path}: its b/2.jpg {said}"):
            list(streams.of_places([str(path)], tars.samples))
    linked(path, tarfile.LNKTYPE, "1.jpg")
    with pytest.raises(ChannelError, match="is a hard link to 1.jpg: pack it with tar --hard-dereference, or unpack"):
        list(streams.of_places([str(path)], tars.samples))


def aws(tmp_path: Path, monkeypatch, script: str) -> None:
    """A stand-in for AWS's command line."""
    program = tmp_path / "bin" / "aws"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_an_object_of_s3_comes_through_a_pipe(tmp_path, monkeypatch):
    (tmp_path / "a.tar").write_bytes(tar_of(SAMPLES))
    aws(tmp_path, monkeypatch, f'[ "$*" = "s3 cp --only-show-errors s3://b/a.tar -" ] && cat {tmp_path}/a.tar')
    assert [sample["__key__"] for sample in streams.of_places(["s3://b/a.tar"], tars.samples)] == ["a/1", "a/2"]
    # a reader that has enough does not wait for the rest
    with streams.opened("s3://b/a.tar") as stream:
        assert stream.read(7) == b"a/1.cls"


@pytest.mark.parametrize("sent", [0, 1500, 10240])
def test_a_pipe_that_breaks_says_why(tmp_path, monkeypatch, sent):
    (tmp_path / "a.tar").write_bytes(tar_of(SAMPLES))
    aws(tmp_path, monkeypatch, f"head -c {sent} {tmp_path}/a.tar; echo 'fatal error: Access Denied' >&2; exit 1")
    with pytest.raises(ChannelError, match=r"s3://b/a.tar: was not read completely: fatal error: Access Denied"):
        list(streams.of_places(["s3://b/a.tar"], tars.samples))


ASKED = {"source": "/fsx/a", "shard": "by-rank", "mode": "mount", "unpack": "none"}


def index(count: int, **asked):
    shards = tuple(tars_shard(number) for number in range(count))
    return index_of(ASKED | asked, Listing("/fsx/a", shards, {}), "0", ["train-1", "train-2"])


def tars_shard(number: int):
    from gpucluster_train.assignment import Shard

    return Shard(f"{number}.tar", 1024, 10)


def test_fewer_shards_than_sharers():
    with pytest.raises(
        ChannelError, match="/fsx/a has 3 shards for 4 ranks: make at least 4 .*shard: by-node or shard"
    ):
        check("a", index(3), 4)
    with pytest.raises(ChannelError, match="/fsx/a has 1 shard for 2 nodes: make at least 2"):
        check("a", index(1, shard="by-node"), 4)
    check("a", index(1, shard="none"), 4)
    check("a", index(4), 4)


def test_a_second_run_uses_the_list_of_the_first():
    assert again(index(5), index(4)) == (index(4), "1 shard was added after the job's first run and is ignored")
    assert again(index(4), index(4)) == (index(4), "")
    with pytest.raises(
        ChannelError, match=r"1 of the 5 shards of the job's first run are missing or changed, first 4.tar"
    ):
        again(index(4), index(5))


def test_an_image_for_each_shard_is_too_many():
    assert remarks(Listing("/fsx/a", (tars_shard(0),) * MANY, {}, ("note",))) == ["note"]
    (said,) = remarks(Listing("/fsx/a", (tars_shard(0),) * (MANY + 1), {}))
    assert said.endswith("pack them with gpucluster data shard")


def test_messages_in_the_log():
    assert summary(index(10), 4) == "/fsx/a: 10 shards, 10.0 KiB, 100 samples; 2 or 3 to each rank, mode mount"
    assert summary(index(1, shard="none"), 4).startswith("/fsx/a: 1 shard, 1.0 KiB, ")
    assert summary(index(8, shard="by-node"), 4).endswith("; 4 to each node, mode mount")
    assert summary(index(8, shard="none"), 4).endswith("; all to every rank, mode mount")
    assert [in_words(number) for number in (5, 1536, 3 * 2**40)] == ["5 bytes", "1.5 KiB", "3.0 TiB"]


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_key_that_cannot_be_a_file_name_is_refused_and_named(place):
    put, source = place
    put("a.tar")
    listing(source)
    client, bucket = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"]), source.split("/")[2]
    for name in ("../../etc/passwd", "a/./b", "/etc/passwd", "a//b"):
        put(name)
        with pytest.raises(
            ChannelError, match=re.escape(f"/a/set/{name}: is not a valid file name: a part of it is empty")
        ):
            listing(source)
        client.delete_object(Bucket=bucket, Key=f"a/set/{name}")


ODD_NAMES = [
    ("caf\udce9.tar", r"/set/caf\xe9.tar: this name is not UTF-8: rename it"),
    ("deep/one\ntwo.tar", r"/set/deep/one\ntwo.tar: this name has a line break or another control character: rename"),
    ("a\x85b.tar", r"/set/a\x85b.tar: this name has a line break or another control character: rename it"),
]


@pytest.mark.parametrize(("name", "said"), ODD_NAMES)
def test_a_shard_whose_name_no_list_can_have_is_refused_and_named(place, name, said):
    put, source = place
    if source.startswith("s3://") and ("\udce9" in name or "\n" in name):
        return  # keys are UTF-8, and moto's server takes none with a line break
    put("a.tar")
    put(f"_{name.replace('/', '_')}")
    listing(source)
    put(name)
    with pytest.raises(ChannelError, match=re.escape(said)):
        listing(source)
    put("manifest.json", manifest(("a.tar", 1, 7)))
    assert [shard.name for shard in listing(source).shards] == ["a.tar"]


def test_shards_are_printed_in_utf8_whatever_the_locale(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "実験.tar").touch()
    asked = {"source": "x", "shard": "none", "mode": "mount", "unpack": "none"}
    index = index_of(asked, listing(f"{tmp_path}/data"), "0", ["n"])
    (tmp_path / "channels" / "train").mkdir(parents=True)
    (tmp_path / "channels" / "train" / "index.json").write_text(json.dumps(index))
    own = {"GPUCLUSTER_JOB_DIR": str(tmp_path), "PYTHONIOENCODING": "latin-1", "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "gpucluster_train.channels", "train", "--epoch", "1"]
    done = subprocess.run(argv, env=own, capture_output=True, check=False)
    assert (done.stdout.decode(), done.stderr) == (f"{tmp_path}/data/実験.tar\n", b"")


def test_submit_and_the_ranks_refuse_the_same_names() -> None:
    """Neither package can import the other, so each has the rule."""
    for code in range(0x11000):
        name = f"a{chr(code)}b.tar"
        assert submitted.name_flaw(name) == channels.name_flaw(name), hex(code)
