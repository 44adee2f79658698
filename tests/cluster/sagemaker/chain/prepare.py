"""Writes points of a line as shards, one for each rank."""

import json
import os
from pathlib import Path

RANKS, POINTS = 3, 30

output = Path(os.environ["GPUCLUSTER_OUTPUT_SHARDS"])
for number in range(RANKS):
    points = [(x / POINTS, 3 * x / POINTS + 1) for x in range(number, POINTS, RANKS)]
    (output / f"{number}.json").write_text(json.dumps(points))
print(f"{RANKS} shards of {POINTS} points", flush=True)
