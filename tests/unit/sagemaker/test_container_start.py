"""The entry point of a training job's container, run by a shell in folders that take the place of /opt/ml and /tmp."""

from __future__ import annotations

import subprocess

import pytest

from gpucluster.sagemaker.channels import OURS
from gpucluster.sagemaker.request import ARCHIVE, SCRIPT
from gpucluster.submission.snapshot import File, archive

LIBRARY = """\
import os, sys
print(os.getpid(), os.getcwd(), sys.argv[1:])
sys.exit(3)
"""


@pytest.mark.parametrize("has_code", [True, False])
def test_the_containers_first_process_becomes_our_library_in_the_jobs_folder(tmp_path, has_code):
    code, channel = tmp_path / "code", tmp_path / "opt/ml/input/data" / OURS
    for folder in (code, channel, tmp_path / "tmp"):
        folder.mkdir(parents=True)
    (code / "train.py").write_text("")
    packed = archive(OURS, {"lib/gpucluster_job/__main__.py": File(LIBRARY)}, code if has_code else None)
    (channel / ARCHIVE).write_bytes(packed)
    script = SCRIPT.replace("/tmp", f"{tmp_path}/tmp").replace("/opt/ml", f"{tmp_path}/opt/ml")
    words = ["--launcher", "srun", "--", "python", "train.py", "a b"]
    shell = subprocess.Popen(["/bin/sh", "-c", script, OURS, *words], stdout=subprocess.PIPE, text=True)
    out, _ = shell.communicate(timeout=60)
    assert shell.returncode == 3
    assert out == f"{shell.pid} {tmp_path}/tmp/{OURS}/code {['sagemaker', *words]}\n"
    assert (tmp_path / "tmp" / OURS / "code/train.py").exists() == has_code
