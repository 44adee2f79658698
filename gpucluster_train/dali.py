"""Pictures that NVIDIA's DALI decodes, as batches for torch: on the GPU, or on the CPUs of a node without one.

DALI is a package of the job, not of the cluster's environment: 0.6 GB that only such jobs need. `PACKAGES` names it.
"""

from __future__ import annotations

import gc
import importlib.util
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, List, Tuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from gpucluster_train import images
from gpucluster_train.channels import ChannelError
from gpucluster_train.tars import KEY
from gpucluster_train.world import world

PACKAGES = {"13": "nvidia-dali-cuda130==2.4.0", "12": "nvidia-dali-cuda120==2.4.0"}
"""For torch's version of CUDA. The first has code for GPUs from SM 7.5 on, the second from 5.0 on, so also for V100
(docs/support_matrix.rst of NVIDIA/DALI; the wheels' own fat binaries begin with sm_75 and sm_50)."""
READERS = 2
"""Processes that read encoded pictures: one passes on more of them than a GPU decodes."""
CHUNK = 32
"""Samples that a reader passes on at a time. Batches are made of them, so that readers need not end together."""
MARGIN = 2
"""Pixels around a crop: colours are stored at half the resolution, and are blended across its edge."""


def available() -> bool:
    try:
        return importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        return False


def package() -> str:
    """The requirement that adds DALI to a job, for this torch."""
    return PACKAGES.get((torch.version.cuda or "13").partition(".")[0], PACKAGES["13"])


def loss() -> str:
    """One line: what a job without DALI loses, and how it gets DALI."""
    return (
        "nvidia.dali is not installed: the CPUs decode all pictures, and the GPU's JPEG decoder stays idle; "
        f"`requirements: [{package()}]` in job.yaml installs it"
    )


_Bytes = npt.NDArray[np.uint8]
_Batch = Tuple[List[_Bytes], npt.NDArray[np.int64]]
"""Encoded pictures, and their labels."""


@dataclass(frozen=True)
class _Chunk:
    """Samples on their way from a reader: their pictures one after another, in shared memory."""

    keys: list[str]
    content: Tensor
    ends: list[int]
    labels: list[int]

    def pictures(self) -> Iterator[_Bytes]:
        content, start = self.content.numpy(), 0
        for end in self.ends:
            yield content[start:end]
            start = end


def _chunk(samples: Sequence[dict[str, Any]], classes: int | None = None) -> _Chunk:
    """Raises ChannelError with the sample's key."""
    pictures = [_picture(sample) for sample in samples]
    content = torch.frombuffer(bytearray().join(pictures), dtype=torch.uint8)
    ends = np.cumsum([len(each) for each in pictures]).tolist()
    labels = [images.label_of(sample, classes) for sample in samples]
    return _Chunk([sample[KEY] for sample in samples], content, ends, labels)


def _picture(sample: dict[str, Any]) -> bytes:
    """Raises ChannelError: the GPU's decoder would paint the rest of a truncated picture grey, and train with it."""
    content = images.encoded_of(sample)
    if content.startswith(b"\xff\xd8") and content.rfind(b"\xff\xd9") < 0:
        why = "its end marker is missing: replace the file, or leave it out"
        raise ChannelError(f"sample {sample[KEY]}: truncated JPEG: {why}")
    return content


class Batches:
    """Batches of (N x 3 x size x size in channels_last, normalised; int64 labels), both on `device`.

    `samples` are `gpucluster_train.torch_samples.Samples` without decode. In training, pictures are random crops,
    mirrored at random, and a rest that fills no batch is left out; otherwise they are centre crops, and the last batch
    may be smaller. Each loop over the batches is an epoch of `samples`; the pipeline is built once, for all epochs.
    `hw_decoder_load`: the share of the pictures for the JPEG decoder of the GPU, if it has one. `classes`: how many the
    network has. Raises ChannelError.
    """

    def __init__(
        self,
        samples: Any,
        batch: int,
        size: int,
        training: bool,
        device: torch.device,
        dtype: torch.dtype,
        *,
        hw_decoder_load: float = 0.65,
        classes: int | None = None,
    ) -> None:
        self._samples, self._batch, self._size, self._training = samples, batch, size, training
        self._device, self._dtype, self._hw_decoder_load = device, dtype, hw_decoder_load
        chunk = partial(_chunk, classes=classes)
        self._readers = DataLoader(
            samples, CHUNK, num_workers=READERS, collate_fn=chunk, persistent_workers=True, prefetch_factor=4
        )
        self._epoch: Iterator[_Batch] = iter(())
        self._on_their_way: deque[list[tuple[str, _Bytes]]] = deque()
        self._iterator: Any = None

    def __len__(self) -> int:
        return len(self._samples) // self._batch if self._training else -(-len(self._samples) // self._batch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        self._epoch = self._read()
        if self._iterator is None:
            self._iterator = self._built()
        else:
            self._iterator.reset()
        try:
            while found := self._next():
                yield found
        finally:
            self._drain()

    def _next(self) -> tuple[Tensor, Tensor] | None:
        try:
            (found,) = next(self._iterator)
        except StopIteration:
            return None
        except ChannelError:  # which is a RuntimeError, too
            raise
        except RuntimeError as error:
            raise self._named(error) from None
        self._on_their_way.popleft()
        pictures = images.normalised(found["pictures"], self._device, self._dtype)
        return pictures, found["labels"].to(self._device)

    def _drain(self) -> None:
        """DALI begins an epoch only after the end of the one before: a loop may have been left early."""
        self._epoch = iter(())
        try:
            while self._on_their_way:
                next(self._iterator)
                self._on_their_way.popleft()
            next(self._iterator)
        except (StopIteration, RuntimeError):
            self._on_their_way.clear()

    def _read(self) -> Iterator[_Batch]:
        """One epoch's batches, still encoded."""
        keys: list[str] = []
        pictures: list[_Bytes] = []
        labels: list[int] = []
        for chunk in self._chunks():
            keys += chunk.keys
            pictures += chunk.pictures()
            labels += chunk.labels
            while len(keys) >= self._batch:
                yield self._cut(keys, pictures, labels)
        if keys and not self._training:
            yield self._cut(keys, pictures, labels)

    def _chunks(self) -> Iterator[_Chunk]:
        # A reader is a fork, in which the collector must not destroy a pipeline of this process: DALI would wait for
        # its threads, which the fork does not have.
        gc.freeze()
        try:
            chunks = iter(self._readers)
        finally:
            gc.unfreeze()
        return images.in_one_line(chunks)

    def _cut(self, keys: list[str], pictures: list[Any], labels: list[int]) -> _Batch:
        """Takes the first batch off the lists."""
        self._on_their_way.append(list(zip(keys[: self._batch], pictures)))
        found = pictures[: self._batch], np.array(labels[: self._batch], np.int64)
        for each in (keys, pictures, labels):
            del each[: self._batch]
        return found

    def _built(self) -> Any:
        from nvidia.dali import pipeline_def
        from nvidia.dali.plugin.pytorch import DALIGenericIterator

        on_gpu = self._device.type == "cuda"
        threads = images.workers("auto")
        pipeline = pipeline_def(_graph)(
            lambda: next(self._epoch), self._size, self._training, self._hw_decoder_load if on_gpu else None,
            batch_size=self._batch, num_threads=threads, device_id=(self._device.index or 0) if on_gpu else None,
            seed=1 + world().rank,
        )  # fmt: skip
        return DALIGenericIterator(pipeline, ["pictures", "labels"], prepare_first_batch=False)

    def _named(self, error: RuntimeError) -> ChannelError:
        """DALI seldom says which sample of a batch it was."""
        for key, picture in self._on_their_way[0] if self._on_their_way else ():
            try:
                images.pixels(picture.tobytes(), f"sample {key}")
            except ChannelError as found:
                return found
        return ChannelError(f"DALI: {' '.join(str(error).split())}")


def _graph(source: Any, size: int, training: bool, hw_decoder_load: float | None) -> tuple[Any, Any]:
    """The pipeline's operators; on the CPUs if hw_decoder_load is None. Pictures leave it as bytes, N x H x W x 3."""
    from nvidia.dali import fn, types

    encoded, labels = fn.external_source(
        source, num_outputs=2, batch=True, dtype=[types.UINT8, types.INT64], ndim=[1, 0]
    )
    # Threads that are tied to CPUs would be tied to the same ones in each of the node's ranks.
    decoder: dict[str, Any] = {"adjust_orientation": False, "device": "cpu"}
    if hw_decoder_load is not None:
        decoder.update(device="mixed", hw_decoder_load=hw_decoder_load, affine=False)
        labels = labels.gpu()
    resize = {"size": (size, size), "interp_type": types.INTERP_LINEAR, "antialias": True}
    if training:
        pictures = fn.resize(fn.decoders.image_random_crop(encoded, **decoder), **resize)
        pictures = fn.flip(pictures, horizontal=fn.random.coin_flip())
    else:
        pictures = _centre(encoded, decoder, resize)
    return pictures, labels


def _centre(encoded: Any, decoder: dict[str, Any], resize: dict[str, Any]) -> Any:
    """The largest square's inner 7/8. Only that part is decoded, and the exact part of it is resized."""
    from nvidia.dali import fn, math, types

    shape = fn.peek_image_shape(encoded, dtype=types.FLOAT, adjust_orientation=False)[:2]
    side = fn.reductions.min(shape) * 7 / 8
    start = (shape - side) / 2
    first = math.max(math.floor(start) - MARGIN, 0)
    last = math.min(math.ceil(start + side) + MARGIN, shape)
    pictures = fn.decoders.image_slice(
        encoded, start=fn.cast(first, dtype=types.INT32), end=fn.cast(last, dtype=types.INT32), axes=(0, 1), **decoder
    )
    return fn.resize(pictures, roi_start=start - first, roi_end=start - first + side, **resize)
