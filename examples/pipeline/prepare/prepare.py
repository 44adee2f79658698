"""Turns raw CSV files into shards, one JSON list of pairs each."""

import csv
import json
import os
from pathlib import Path

import gpucluster_train

SHARDS = 4

pairs = []
for path in gpucluster_train.channel("raw").shards(0):
    with open(path, newline="") as file:
        pairs += [(float(row["x"]), float(row["y"])) for row in csv.DictReader(file)]

output = Path(os.environ["GPUCLUSTER_OUTPUT_SHARDS"])
for number in range(SHARDS):
    (output / f"shard-{number}.json").write_text(json.dumps(pairs[number::SHARDS]))
print(f"{len(pairs)} pairs in {SHARDS} shards")
