"""webdataset reads the same samples from our tar files, under their usual names."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpucluster.cli import main


def test_webdataset_reads_every_sample(tmp_path: Path) -> None:
    if importlib.util.find_spec("webdataset") is None:
        pytest.skip("webdataset is not installed: make setup")
    expected = {}
    for number in range(23):
        path = tmp_path / "src" / f"c{number % 3}" / f"a.b{number}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff\xda\0\x02%d\xff\xd9" % number)
        expected[path.read_bytes()] = number % 3
    out = tmp_path / "out"
    assert main(["data", "shard", str(tmp_path / "src"), str(out), "--shards", "4", "--workers", "1"]) == 0
    shards = sorted(str(path) for path in out.glob("*.tar"))
    # in a process of its own: it leaves files open
    done = subprocess.run([sys.executable, "-c", READ, *shards], capture_output=True, text=True, check=True, timeout=60)
    found = json.loads(done.stdout)
    assert {bytes.fromhex(image): int(label) for image, label, _ in found} == expected
    assert [key for _, _, key in found] == [f"{number:09d}" for number in range(23)]


READ = """
import json, sys, webdataset
samples = webdataset.WebDataset(sys.argv[1:], shardshuffle=False).to_tuple("jpg", "cls", "__key__")
print(json.dumps([(image.hex(), label.decode(), key) for image, label, key in samples]))
"""
