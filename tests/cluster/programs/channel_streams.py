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
by_torch = sorted(DataLoader(images, batch_size=None, num_workers=2))
assert by_torch == sorted(sample["jpg"].decode() for sample in streams.samples(train)), "two ways to the same samples"
for image in by_torch:
    print("streamed", image, flush=True)
for folder in Path(os.environ["GPUCLUSTER_CHANNEL_VAL"]).read_text(encoding="utf-8").split():
    for path in sorted(Path(folder).rglob("*.jpg")):
        print("copied", path.read_text(encoding="utf-8"), path.is_relative_to("/scratch"), flush=True)
