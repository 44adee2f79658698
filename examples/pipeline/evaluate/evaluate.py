"""Loads the trained model and says how well it fits all shards."""

import json
from pathlib import Path

import torch

import gpucluster_train

(path,) = gpucluster_train.channel("model").shards(0)
model = torch.nn.Linear(1, 1)
model.load_state_dict(torch.load(path, map_location="cpu"))
shards = gpucluster_train.channel("data").shards(0)
pairs = torch.tensor([pair for shard in shards for pair in json.loads(Path(shard).read_text())])
loss = (model(pairs[:, :1]) - pairs[:, 1:]).square().mean()
print(json.dumps({"pairs": len(pairs), "loss": round(loss.item(), 6), "slope": round(model.weight.item(), 3)}))
