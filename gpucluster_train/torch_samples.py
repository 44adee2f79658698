"""Tar shards for torch's DataLoader. From S3 they are streamed through s3torchconnector if the environment has it."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from gpucluster_train import streams, tars
from gpucluster_train.channels import ChannelError, channel


class Samples(IterableDataset[Any]):  # type: ignore[misc]
    """This rank's samples of a channel, in the epoch's order; the workers of a DataLoader share out its shards.

    `decode` turns a sample (`{"__key__": …, "jpg": bytes, …}`) into the network's input. Create a new DataLoader
    for each epoch, or do not set persistent_workers: workers copy the data set when they start.
    """

    def __init__(self, name: str, epoch: int = 0, decode: Callable[[tars.Sample], Any] | None = None) -> None:
        super().__init__()
        self._channel, self.epoch, self._decode = channel(name), epoch, decode

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        places = self._channel.shards(self.epoch)
        own = places[worker.id :: worker.num_workers] if worker else places
        found = from_s3(own) if self._channel.mode == "stream" and connector() else streams.of_places(own, tars.samples)
        return map(self._decode, found) if self._decode else found


def connector() -> bool:
    return importlib.util.find_spec("s3torchconnector") is not None


def from_s3(uris: list[str]) -> Iterator[tars.Sample]:
    """Raises ChannelError."""
    if not uris:
        return
    s3 = importlib.import_module("s3torchconnector")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    config = s3.S3ClientConfig(force_path_style="AWS_ENDPOINT_URL" in os.environ)
    readers = iter(s3.S3IterableDataset.from_objects(uris, region=region, s3client_config=config))
    failed: type[Exception] = importlib.import_module("s3torchconnectorclient").S3Exception
    try:
        for uri in uris:
            yield from tars.samples(next(readers), uri)
    except failed as error:
        raise ChannelError(f"a shard of {uris[0].rpartition('/')[0]} was not read completely: {error}") from None
