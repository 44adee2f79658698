"""Tar shards for torch's DataLoader. From S3 they are streamed through s3torchconnector if the environment has it."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from gpucluster_train import channel, streams, tars
from gpucluster_train.assignment import count_of
from gpucluster_train.channels import ChannelError


class Samples(IterableDataset[Any]):  # type: ignore[misc]
    """This rank's samples of a channel, in an order of their own in each epoch; a DataLoader's workers share them.

    `decode` turns a sample (`{"__key__": …, "jpg": bytes, …}`) into the network's input. `shuffle`: how many samples
    each worker keeps in memory and draws from; 0 keeps the shards' order. All ranks have equally many samples, as many
    as `len` says; with `exact` they have every sample once, and may differ. Call `set_epoch` before each epoch, also
    with persistent_workers. Raises ChannelError.
    """

    def __init__(
        self,
        name: str,
        epoch: int = 0,
        decode: Callable[[tars.Sample], Any] | None = None,
        *,
        shuffle: int = 4096,
        seed: int = 0,
        exact: bool = False,
    ) -> None:
        super().__init__()
        self._channel, self._decode = channel(name), decode
        self._shuffle, self._seed, self._exact = shuffle, seed, exact
        self._epoch = torch.tensor(epoch).share_memory_()  # workers that live on read it when they begin an epoch
        if not exact and self._count() == 0:
            few = f"its shards have fewer samples than the job has ranks ({self._channel.world.size})"
            raise ChannelError(f"channel {name}: {few}: use fewer ranks, or exact=True")

    @property
    def epoch(self) -> int:
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        """This rank's samples in an epoch. Raises TypeError, as of any object without length, if that is unknown."""
        if (count := self._count()) is None:
            raise TypeError(
                f"channel {self._channel.name}: the number of samples is unknown, because its source has no "
                "manifest.json: pack it with gpucluster data shard"
            )
        return count

    def _count(self) -> int | None:
        return count_of(self._channel.pieces(self.epoch, exact=self._exact))

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        opening = from_s3 if self._channel.mode == "stream" and connector() else None
        found = streams.samples(
            self._channel, self.epoch, shuffle=self._shuffle, seed=self._seed, exact=self._exact,
            worker=number, workers=count, opening=opening,
        )  # fmt: skip
        return map(self._decode, found) if self._decode else found


def connector() -> bool:
    return importlib.util.find_spec("s3torchconnector") is not None


def from_s3(uris: list[str]) -> streams.Opening:
    """Opens them, in this order, over one connection."""
    s3 = importlib.import_module("s3torchconnector")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    config = s3.S3ClientConfig(force_path_style="AWS_ENDPOINT_URL" in os.environ)
    readers = iter(s3.S3IterableDataset.from_objects(uris, region=region, s3client_config=config) if uris else ())
    failed: type[Exception] = importlib.import_module("s3torchconnectorclient").S3Exception

    @contextmanager
    def opened(uri: str) -> Iterator[IO[bytes]]:
        try:
            yield next(readers)
        except failed as error:
            raise ChannelError(f"{uri}: was not read completely: {error}") from None

    return opened
