"""Keeps jobs' own packages in `software.cache`, through pipes: no second copy of them is on the disk on the way.

usage: cache has|restore|store ENVIRONMENT PLACE

ENVIRONMENT is the cluster's environment, by the link that jobs use. PLACE is the folder of overlay.py. Exit code 1
means no. It needs boto3, which is one of the system's packages, and has the permissions of jobs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

PART_BYTES = 16 * 2**20
"""An object has at most 10,000 parts, so it may have 156 GiB. The head node has up to ten parts in memory."""
SOON = {"connect_timeout": 10, "read_timeout": 60, "retries": {"total_max_attempts": 3}}
"""A job waits for its packages, and can be served without S3."""
# Members are named from PLACE on, so an archive cannot write elsewhere. Storing leaves the processors to Slurm.
_UNPACK = 'set -o pipefail; {0} -q -d | tar -C "$0" --no-same-owner --same-permissions -xf -'
# tar's exit code is 1 if a file changes meanwhile: jobs already use the packages, and Python may write compiled files.
_PACK = 'set -o pipefail; {{ nice tar -C "$0" -cf - . || [ $? = 1 ]; }} | nice {0}'


class Broken(Exception):
    pass


def address(environment: Path, place: Path) -> str:
    """The archive's place in S3; "" if this cluster keeps no packages. Only clusters that we built have the file."""
    file = environment.parent / ".recipe" / "environments" / "packages"
    prefix = file.read_text(encoding="utf-8").strip() if file.exists() else ""
    ending = ".tar.zst" if shutil.which("zstd") else ".tar.gz"
    built_for = "-".join([os.uname().machine, *_cuda()])
    return prefix and f"{prefix}/{place.parent.name}/{place.name}-{built_for}{ending}"


def _cuda() -> list[str]:
    """The versions of CUDA on this machine: packages that are compiled here use them, or none."""
    folder = os.environ.get("CUDA_ROOT", "/usr/local")
    return sorted(each for each in os.listdir(folder) if re.match(r"cuda-\d", each))


class Archive:
    """One object in S3."""

    def __init__(self, s3: Any, uri: str) -> None:
        self.s3, self.uri = s3, uri
        self.bucket, _, self.key = uri[len("s3://") :].partition("/")

    @property
    def exists(self) -> bool:
        """Lists the key, because a request for a missing object gets `forbidden`."""
        found = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=self.key, MaxKeys=1).get("Contents", [])
        return any(each["Key"] == self.key for each in found)

    def unpack(self, place: Path) -> None:
        """Raises Broken, and boto3's errors."""
        body = self.s3.get_object(Bucket=self.bucket, Key=self.key)["Body"]
        place.mkdir(parents=True)
        program = _UNPACK.format("zstd" if self.key.endswith(".zst") else "gzip")
        with subprocess.Popen(["bash", "-c", program, str(place)], stdin=subprocess.PIPE) as process:
            assert process.stdin
            with suppress(BrokenPipeError), process.stdin:  # the exit code says that it ended early
                for part in body.iter_chunks(2**20):
                    process.stdin.write(part)
        if process.returncode:
            raise Broken("the archive is broken")

    def pack(self, place: Path) -> None:
        """Raises Broken, and boto3's errors. S3 gets either the whole archive or nothing."""
        from boto3.s3.transfer import TransferConfig

        config = TransferConfig(multipart_chunksize=PART_BYTES, multipart_threshold=PART_BYTES, max_concurrency=2)
        program = _PACK.format("zstd -q -T0 -3" if self.key.endswith(".zst") else "gzip -1")
        with subprocess.Popen(["bash", "-c", program, str(place)], stdout=subprocess.PIPE) as process:
            self.s3.upload_fileobj(_Whole(process), self.bucket, self.key, Config=config)


class _Whole:
    """The output of a process. Its end is an error if the process failed: boto3 then stores nothing."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def read(self, size: int = -1) -> bytes:
        assert self._process.stdout
        data = self._process.stdout.read(size)
        if (size < 0 or len(data) < size) and self._process.wait():
            raise Broken(f"the folder cannot be packed: exit code {self._process.returncode}")
        return data


def restore(archive: Archive, python: str, place: Path) -> bool:
    """An installation has the path of its folder and of Python in many files, and pyvenv.cfg has both. They are the
    same on every cluster with the same image and account."""
    if not archive.exists:
        print(f"{archive.uri} is not in the cache")
        return False
    print(f"restoring the packages from {archive.uri}", flush=True)
    try:
        expected = _configuration(python, place)
        archive.unpack(place)
        if (place / "pyvenv.cfg").read_bytes() != expected:
            raise Broken("it was installed in another folder, or with another Python")
    except Exception:
        shutil.rmtree(str(place), ignore_errors=True)
        raise
    print(f"restored from {archive.uri}")
    return True


def _configuration(python: str, place: Path) -> bytes:
    """What overlay.py's virtual environment would have there: the file also has the words of the command."""
    subprocess.run([python, "-I", "-m", "venv", "--without-pip", str(place)], check=True)
    written = (place / "pyvenv.cfg").read_bytes()
    shutil.rmtree(str(place))
    return written


def store(archive: Archive, place: Path) -> bool:
    archive.pack(place)
    print(f"stored to {archive.uri}")
    return True


FAILED = {
    "restore": "{0} could not be restored: {1}; the packages are installed",
    "store": "warning: {0} could not be stored: {1}; this cluster uses the packages all the same",
}


def main(verb: str, environment: Path, place: Path) -> int:
    uri = address(environment, place)
    if not uri:
        return 1
    try:
        import boto3
        from botocore.config import Config

        archive = Archive(boto3.client("s3", config=Config(**SOON)), uri)
        if verb == "has":
            return 0 if archive.exists else 1
        python = os.path.join(os.path.realpath(str(environment)), "bin", "python")
        return 0 if (restore(archive, python, place) if verb == "restore" else store(archive, place)) else 1
    except Exception as error:  # boto3's have no common base
        if verb in FAILED:
            print(FAILED[verb].format(uri, error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
