"""The program of the jobs of `gpucluster data shard --array`: `python -m gpucluster.data OPTIONS.json STAGE`."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from gpucluster.data.run import Options
from gpucluster.data.stages import stage
from gpucluster.errors import GpuClusterError


def main(words: list[str]) -> int:
    # like Ctrl-C: incomplete files are deleted
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    file, name = words
    try:
        outcomes = stage(Options.parse(Path(file).read_text()), name, tell)
    except GpuClusterError as error:
        tell(error.render())
        return error.exit_code
    if outcomes:
        print(json.dumps({"data_sets": [asdict(each) for each in outcomes]}), flush=True)
    return 0


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
