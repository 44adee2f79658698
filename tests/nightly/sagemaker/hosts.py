"""Hosts of training jobs that boot with the packages of one of the jobs' environments, and no cluster beside them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bed import ROOT, WHEELS, Bed

from localcloud.machines import image
from tests.cluster.sagemaker import trainer

GUESTS = "/opt/wheels"
"""Where hosts find the folder of `up --wheels`."""


def programs(folder: Path, lock: str) -> Path:
    """The nodes' Python 3.11 with the packages of a lock, because the guests' own Python is newer."""
    (interpreter,) = (image.build() / "opt/python").glob("cpython-3.11*.tar.gz")
    subprocess.run(["tar", "-xzf", interpreter, "-C", folder, "--strip-components=1"], check=True)
    file = ROOT / "bootstrap/environments" / lock
    links = [word for each in (WHEELS, WHEELS / file.stem) for word in ("--find-links", str(each))]
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python3"), "install", "--quiet", "--no-deps"]
    more = ("--break-system-packages", "--no-compile", "--no-warn-script-location")
    subprocess.run([*pip, *more, *links, "-r", str(file)], check=True, timeout=900)
    return folder


@contextmanager
def up(folder: Path, programs: Path) -> Iterator[Bed]:
    """A cloud with the role and the bucket of `trainer`."""
    bed = Bed.make(folder)
    try:
        done = bed.localcloud("up", "--detach", "--port", str(bed.port), "--wheels", str(programs))
        assert done.returncode == 0, done.stderr
        trainer.make(bed)
        yield bed
    finally:
        bed.close()
