"""Reads the channel `train` from S3 with torch and without it, and `val` from the node's disk."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from torch.utils.data import DataLoader

import gpucluster_train
from gpucluster_train import streams, torch_samples

rank = gpucluster_train.world().rank
train = gpucluster_train.channel("train")
assert train.shards()[0].startswith("s3://"), train.shards()
assert torch_samples.connector(), importlib.import_module("s3torchconnector")
images = torch_samples.Samples("train", 0, lambda sample: sample["jpg"].decode())
loader = DataLoader(images, batch_size=None, num_workers=2, persistent_workers=True)
by_torch = list(loader)
assert len(by_torch) == len(images) == train.samples_each(), "every rank has as many"
assert sorted(by_torch) == sorted(sample["jpg"].decode() for sample in streams.samples(train)), "the same samples"
images.set_epoch(1)
of_next = [sample["jpg"].decode() for sample in streams.samples(train, 1)]
assert sorted(loader) == sorted(of_next) != sorted(by_torch), "workers that live on read the next epoch"
for image in by_torch:
    print("streamed", image, flush=True)
for folder in Path(os.environ["GPUCLUSTER_CHANNEL_VAL"]).read_text(encoding="utf-8").split():
    for path in sorted(Path(folder).rglob("*.jpg")):
        print("copied", path.read_text(encoding="utf-8"), path.is_relative_to("/scratch"), flush=True)
