"""Reads this rank's samples of the channel `train` for three epochs, and writes their names to a folder.

The first run stays in epoch 2 until it is killed; the next run continues there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import gpucluster_train
from gpucluster_train import streams

EPOCHS = 3
out, run = Path(sys.argv[1]), int(os.environ.get("SLURM_RESTART_COUNT", "0"))
rank = gpucluster_train.world().rank
train = gpucluster_train.channel("train")
listed = Path(os.environ["GPUCLUSTER_CHANNEL_TRAIN"]).read_text(encoding="utf-8").split()
assert listed == train.shards(0), "the file has the shards of epoch 0"
for epoch in range(EPOCHS - 1 if run else 0, EPOCHS):
    shards = train.shards(epoch)
    # a checkpoint would store this before the first sample
    (out / f"shards-{epoch}-{rank}-{run}.json").write_text(json.dumps(shards), encoding="utf-8")
    images = [sample["jpg"].decode() for sample in streams.samples(train, epoch)]
    assert len(images) >= (train.samples_each(epoch) or 0) > 0
    print(f"epoch {epoch}: {len(shards)} shards, {len(images)} samples", flush=True)
    if epoch == EPOCHS - 1 and not run:
        time.sleep(600)
    (out / f"images-{epoch}-{rank}.json").write_text(json.dumps(images), encoding="utf-8")
