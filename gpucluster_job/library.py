"""Runs a module of gpucluster_train as a program: `library MODULE [WORD...]`.

It uses the node's own Python, which has boto3. It removes the job's code and environment from the path, and all other
settings of Python, but keeps S3 keys that the job brings.
"""

from __future__ import annotations

import os

from gpucluster_job import ourselves


def words(module: str, *more: str) -> list[str]:
    return ourselves.words("library", module, *more)


def main(given: list[str]) -> int:
    from gpucluster_job.exports import assignments

    _, module, *more = given
    python = ourselves.words("")[0]
    all_of_it = {**os.environ, **dict(assignments(f"{ourselves.folder()}/secrets.sh"))}
    environment = {name: value for name, value in all_of_it.items() if not name.startswith("PYTHON")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    os.chdir(f"{ourselves.folder()}/lib")
    os.execve(python, [python, "-s", "-m", f"gpucluster_train.{module}", *more], environment)
