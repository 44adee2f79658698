"""Shards as streams: a file is opened, an S3 object is read through a pipe.

`samples` reads tar shards that way, in any framework; `gpucluster_train.torch_samples` is for torch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from gpucluster_train import tars
from gpucluster_train.channels import S3, Channel, ChannelError

Item = TypeVar("Item")


@contextmanager
def opened(place: str) -> Iterator[IO[bytes]]:
    """Opens a shard to be read once, from start to end. Raises ChannelError if it is missing or incomplete."""
    if place.startswith(S3):
        with _piped(place) as stream:
            yield stream
        return
    try:
        file = Path(place).open("rb")  # noqa: SIM115 - closed below, apart from the error of opening it
    except OSError as error:
        raise ChannelError(f"{place}: cannot be read: {error.strerror}") from None
    with file:
        yield file


@contextmanager
def _piped(uri: str) -> Iterator[IO[bytes]]:
    """The program's error takes precedence over its reader's error about missing data."""
    argv, environment = _reader(uri)
    cut_off: ChannelError | None = None
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout and process.stderr
        try:
            yield process.stdout
        except ChannelError as error:
            cut_off = error
        except BaseException:
            process.kill()
            raise
        if not (at_end := not process.stdout.read(1)):
            process.kill()  # the reader stopped early
        said = process.stderr.read().decode(errors="replace").strip()
        code = process.wait()
    if at_end and code:
        raise ChannelError(f"{uri}: was not read completely: {said.splitlines()[-1] if said else f'exit code {code}'}")
    if cut_off:
        raise cut_off


def _reader(uri: str) -> tuple[list[str], dict[str, str]]:
    """The AWS CLI, which reads a large object in several streams; else boto3 of the node's own Python."""
    if aws := shutil.which("aws"):
        return [aws, "s3", "cp", "--only-show-errors", uri, "-"], dict(os.environ)
    system = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else "python3"
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    return [system, "-s", "-m", "gpucluster_train.sources", uri], environment


def samples(
    channel: Channel, epoch: int = 0, *, rank: int | None = None, size: int | None = None
) -> Iterator[tars.Sample]:
    """Samples of this rank's tar shards, one after another. Raises ChannelError."""
    return of_places(channel.shards(epoch, rank=rank, size=size), tars.samples)


def of_places(places: Iterable[str], parse: Callable[[IO[bytes], str], Iterable[Item]]) -> Iterator[Item]:
    for place in places:
        with opened(place) as stream:
            yield from parse(stream, place)
