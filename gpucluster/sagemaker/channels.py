"""Plans a job's channels as InputDataConfig, and says what each rank reads.

A rank of a Pipe needs a FIFO of its own, so a channel: one per local rank, with the objects sharded over the hosts, or
one per global rank. Each has its share of the objects, by folders 0, 1, … of the data or by manifests, so that each
object is read once in an epoch. File and FastFile need one channel: its ranks share the folder.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gpucluster.addresses import S3, S3Uri, in_s3, within
from gpucluster.config.document import Finding
from gpucluster.job.spec import Channel, JobSpec
from gpucluster.sagemaker.listing import Listed
from gpucluster.sagemaker.target import Choice, FileSystem, Target

MOST = 20
"""Channels of a training job: InputDataConfig of botocore's model."""
OURS = "gpucluster"
"""The channel with the job's own files."""
_SMALL, _MANY = 2**20, 1000
Request = Mapping[str, Any]


class Size(NamedTuple):
    hosts: int
    local: int
    """Ranks on each host."""

    @property
    def world(self) -> int:
        return self.hosts * self.local


class Planned(NamedTuple):
    inputs: tuple[Request, ...] = ()
    """Entries of InputDataConfig."""
    manifests: Mapping[str, list[Any]] = {}
    """Address in S3 -> what must be there as JSON when the job starts."""
    reads: tuple[str, ...] = ()
    """What each rank reads, in lines."""
    readers: Mapping[str, str] = {}
    """The job's channel -> who reads what of it: its `shard`, or for one channel per rank local-rank or global-rank."""
    findings: tuple[Finding, ...] = ()

    def and_then(self, other: Planned) -> Planned:
        return Planned(
            self.inputs + other.inputs,
            {**self.manifests, **other.manifests},
            self.reads + other.reads,
            {**self.readers, **other.readers},
            self.findings + other.findings,
        )


def plan(spec: JobSpec, target: Target, listed: Mapping[str, Listed | str], size: Size, place: str) -> Planned:
    """`listed`: the objects of channels in S3, or why they could not be listed. `place`: where in S3 the job's
    manifests lie."""
    planned, copied = Planned(), 0.0
    room = MOST - 1 - (len(spec.channels) - 1)
    for name, channel in spec.channels.items():
        found, choice = listed.get(name, ""), target.channels.get(name, Choice())
        known, why = (None, found) if isinstance(found, str) else (found, "")
        one = _Channel(name, channel, choice, known, why, size, room, place)
        planned, copied = planned.and_then(_of(one, target)), copied + one.copied_bytes
    names = [each["ChannelName"] for each in planned.inputs]
    faults = [f"{name} is the name of two channels: rename one" for name in sorted({*names}) if names.count(name) > 1]
    if len(names) >= MOST:
        needs = f"the job needs {len(names) + 1} channels, one of them for gpucluster's own files"
        faults.append(f"{needs}, and SageMaker gives at most {MOST}: use fewer, or FastFile instead of Pipe")
    if copied > (disk := target.disk_gb) * 2**30:
        has = f"each host copies {copied / 2**30:.0f} GiB or more before it starts, and has {disk} GB"
        faults.append(f"{has}: leave out mode: copy, or raise volume_gb in sagemaker.yaml or choose another type")
    return planned.and_then(Planned(findings=tuple(Finding(("channels",), each) for each in faults)))


class _Channel(NamedTuple):
    name: str
    asked: Channel
    choice: Choice
    listed: Listed | None
    why_not: str
    """If it could not be listed."""
    size: Size
    room: int
    """The most channels that it may become."""
    place: str

    @property
    def mode(self) -> str:
        return self.choice.mode or ("File" if self.asked.mode == "copy" else "FastFile")

    @property
    def uri(self) -> str:
        return f"{S3Uri.of(self.asked.source)}/"

    @property
    def copied_bytes(self) -> float:
        """On each host, before its container starts; 0 if they are not known."""
        if self.mode != "File" or not self.listed:
            return 0.0
        return self.listed.bytes / (self.size.hosts if self.asked.shard == "by-node" else 1)

    def input(self, name: str, source: Request) -> Request:
        given = {"ChannelName": name, "DataSource": source, "InputMode": self.mode, "CompressionType": "None"}
        if self.choice.records:
            given["RecordWrapperType"] = self.choice.records
        if self.choice.shuffle_seed is not None:
            given["ShuffleConfig"] = {"Seed": self.choice.shuffle_seed}
        return given

    def in_s3(self, uri: str, *, sharded: bool, manifest: bool = False) -> Request:
        kind = "ManifestFile" if manifest else "S3Prefix"
        spread = "ShardedByS3Key" if sharded and self.size.hosts > 1 else "FullyReplicated"
        return {"S3DataSource": {"S3DataType": kind, "S3Uri": uri, "S3DataDistributionType": spread}}

    def refused(self, why: str, hint: str = "", key: str = "source") -> Planned:
        return Planned(findings=(Finding(("channels", self.name, key), why, hint or None),))


def _of(one: _Channel, target: Target) -> Planned:
    source = one.asked.source
    if one.name == OURS:
        return one.refused(f"{OURS} is the channel of the job's own files", "choose another name")
    if one.asked.task and not in_s3(source):
        return Planned()  # `chains` says why it cannot be read
    if one.listed and not one.listed.keys:
        return one.refused(f"there are no objects under {one.uri}", "check the address and the bucket's region")
    if one.asked.unpack != "none":
        return one.refused("SageMaker unpacks no archives", "let the program read them", "unpack")
    if not in_s3(source):
        return _mounted(one, target)
    names = (source.removeprefix(S3), *(f"/{name}" for name in (one.listed.keys if one.listed else ())))
    if named := next((name for name in names if "//" in name), ""):
        return one.refused(f"SageMaker cannot read keys with //, got {named}", "rename the objects")
    if one.asked.mode == "mount":
        return one.refused("mount needs a path on a file system", "use copy or stream", "mode")
    return _piped(one) if one.mode == "Pipe" else _shared(one)


def _mounted(one: _Channel, target: Target) -> Planned:
    source = one.asked.source
    found = next((each for each in target.file_systems if within(source, each.mount)), None)
    if not found:
        hint = "add its file system to file_systems there, or name data in S3"
        return one.refused(f"{source} is on no file system of sagemaker.yaml", hint)
    if one.choice.mode in ("FastFile", "Pipe"):
        return one.refused(f"a file system is mounted, not read as {one.choice.mode}", "remove mode in sagemaker.yaml")
    file_system = {
        "FileSystemId": found.id,
        "FileSystemType": found.type,
        "DirectoryPath": _below(found, source),
        "FileSystemAccessMode": "ro",
    }
    given = {"ChannelName": one.name, "DataSource": {"FileSystemDataSource": file_system}, "InputMode": "File"}
    return Planned(
        (given,),
        reads=(f"{one.name}: {found.type} {found.id}, mounted on all hosts",),
        readers={one.name: one.asked.shard},
    )


def _below(found: FileSystem, source: str) -> str:
    return posixpath.normpath(posixpath.join(found.directory, posixpath.relpath(source, found.mount)))


def _shared(one: _Channel) -> Planned:
    """One folder on each host."""
    by_node, hosts = one.asked.shard == "by-node", one.size.hosts
    if by_node and (few := _fewer(one, one.listed.keys if one.listed else None)):
        return few
    count = f"{len(one.listed.keys)} objects" if one.listed and one.listed.complete else "the objects"
    who = {
        "by-rank": f"each of {one.size.world} ranks reads its part of {count}",
        "by-node": f"each of {hosts} hosts gets about 1/{hosts} of {count}, and its ranks read all of that",
        "none": f"all {one.size.world} ranks read {count}",
    }
    reads = [f"{one.name}: {one.mode}, {who[one.asked.shard]}"]
    if one.mode == "File" and not by_node and hosts > 1:
        reads.append(
            f"{one.name}: every host copies {count} before it starts; FastFile, or shard: by-node, copies less"
        )
    if one.mode == "FastFile" and one.listed and len(one.listed.keys) >= _MANY and one.listed.mean_bytes < _SMALL:
        size = f"{one.listed.mean_bytes / 1024:.0f} KiB"
        reads.append(
            f"{one.name}: its objects have {size} on average: FastFile reads small files slowly, try mode: copy"
        )
    return Planned(
        (one.input(one.name, one.in_s3(one.uri, sharded=by_node)),),
        reads=tuple(reads),
        readers={one.name: one.asked.shard},
    )


def _fewer(one: _Channel, keys: tuple[str, ...] | None) -> Planned | None:
    """ShardedByS3Key leaves hosts without data, which are billed all the same: "Don't choose more ML compute instances
    for training than available S3 objects" (botocore's model, S3DataDistributionType)."""
    if keys is None or len(keys) >= one.size.hosts:
        return None
    has = f"{one.asked.source} has {len(keys)} objects for {one.size.hosts} hosts: some would get none, and cost"
    return one.refused(has, "pack the data into more objects, or ask for fewer nodes")


def _piped(one: _Channel) -> Planned:
    if one.asked.shard == "by-node" and one.size.local > 1:
        why = f"a FIFO has one reader, and {one.size.local} ranks of a host would read the same"
        return one.refused(why, "use shard: by-rank, or FastFile", "shard")
    if one.asked.shard == "none":
        inputs = [one.input(name, one.in_s3(one.uri, sharded=False)) for name in _names(one, one.size.local)]
        every = f"{one.name}: Pipe, a channel per local rank, each with all objects"
        return Planned(tuple(inputs), reads=(every, *_per_local(one)), readers={one.name: "local-rank"})
    if one.size.local == 1 and one.choice.per != "global-rank":
        if few := _fewer(one, one.listed.keys if one.listed else None):
            return few
        whole = f"{one.name}: Pipe, one channel; each host's rank gets about 1/{one.size.hosts} of the objects"
        only = one.input(one.name, one.in_s3(one.uri, sharded=True))
        return Planned((only,), reads=(whole,), readers={one.name: "by-node"})
    if not one.listed or not one.listed.complete:
        why = f"a Pipe for each rank needs the list of the objects of {one.asked.source}: {one.why_not}"
        return one.refused(why, "give credentials that may list them, or use FastFile")
    return _divided(one, one.listed.keys)


def _divided(one: _Channel, keys: tuple[str, ...]) -> Planned:
    """Each object for one rank."""
    local, world = one.size.local, one.size.world
    by_folder = {count: _folders(keys, count) for count in (local, world)}
    asked = one.choice.per or ("global-rank" if by_folder[world] and world <= one.room else "local-rank")
    per_rank = asked == "global-rank"
    count = world if per_rank else local
    shares = by_folder[count] or tuple(keys[index::count] for index in range(count))
    if count > one.room:
        why = f"a channel per {asked.replace('-', ' ')} needs {count}, and {one.room} are left of {MOST}"
        return one.refused(why, "use FastFile, or fewer ranks per node", "mode")
    needed = 1 if per_rank else one.size.hosts
    if (fewest := min(map(len, shares))) < needed:
        why = f"{one.asked.source} has {len(keys)} objects: a channel of {count} would get {fewest}, and needs {needed}"
        return one.refused(why, "pack the data into more objects, or ask for fewer ranks")
    inputs, manifests = [], {}
    for index, name in enumerate(_names(one, count)):
        uri, folders = f"{one.uri}{index}/", bool(by_folder[count])
        if not folders:
            uri = f"{one.place}/manifests/{name}.json"
            manifests[uri] = [{"prefix": one.uri}, *shares[index]]
        inputs.append(one.input(name, one.in_s3(uri, sharded=not per_rank, manifest=not folders)))
    how = f"the folders 0 to {count - 1}" if by_folder[count] else f"{count} manifests"
    reads = [f"{one.name}: Pipe, a channel per {asked.replace('-', ' ')}, by {how} of {len(keys)} objects"]
    reads += _per_global(one, shares) if per_rank else _per_local(one, shares)
    return Planned(tuple(inputs), manifests, tuple(reads), {one.name: asked})


def _names(one: _Channel, count: int) -> list[str]:
    return [f"{one.name}_{index}" for index in range(count)]


def _folders(keys: tuple[str, ...], count: int) -> tuple[tuple[str, ...], ...]:
    """The objects in the folders 0 to count - 1, if all objects are there and no folder is empty."""
    shares = [tuple(key for key in keys if key.startswith(f"{index}/")) for index in range(count)]
    return tuple(shares) if all(shares) and sum(map(len, shares)) == len(keys) else ()


def _per_local(one: _Channel, shares: tuple[tuple[str, ...], ...] = ()) -> Iterator[str]:
    for index in range(one.size.local):
        ranks = ", ".join(str(host * one.size.local + index) for host in range(one.size.hosts))
        about = f"about {len(shares[index]) / one.size.hosts:g} objects each" if shares else "all objects each"
        yield f"  {one.name}_{index}: rank {ranks}, {about}"


def _per_global(one: _Channel, shares: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    for rank, share in enumerate(shares):
        yield f"  {one.name}_{rank}: rank {rank}, {len(share)} objects"
    if one.size.hosts > 1:
        yield (
            f"  every host has the FIFOs of all {one.size.world} ranks, and SageMaker has failed jobs with a FIFO that "
            "nobody reads (amazon-sagemaker-examples#1316): per: local-rank has none"
        )
