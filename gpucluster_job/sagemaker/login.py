"""What another host's launcher runs on this one, over SSH, in the environment of this container: `sagemaker-login
FOLDER`. sshd gives its sessions an environment without the container's PATH and LD_LIBRARY_PATH."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpucluster_job.sagemaker import place


def main(words: list[str]) -> int:
    command = os.environ.get("SSH_ORIGINAL_COMMAND")
    if not command:
        sys.exit("error: this login runs commands only; `aws ssm start-session` opens a shell on a host of the job")
    os.execve("/bin/sh", ["sh", "-c", command], place.environment(Path(words[1])))
