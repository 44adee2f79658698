"""A `Remote` that runs its commands on this machine."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpucluster.errors import RemoteError
from gpucluster.head.remote import Completed, Outlast, Sent


class InProcessRemote:
    def real(self, path: str) -> str:
        return path

    def run(
        self, argv: Sequence[str], *, input: bytes | None = None, timeout_s: float = 60, sent: Sent | None = None
    ) -> Completed:
        try:
            done = subprocess.run(list(argv), input=input or b"", capture_output=True, timeout=timeout_s, check=False)
        except FileNotFoundError:
            raise RemoteError(f"no program {argv[0]!r} on this machine") from None
        except subprocess.TimeoutExpired:
            raise RemoteError(f"the head node did not answer within {timeout_s:.0f} s") from None
        if sent:
            sent(len(input or b""))
        return Completed(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        new = f"{path}.new"
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
            os.chmod(new, mode)
            os.replace(new, path)
        except OSError as error:
            raise RemoteError(f"cannot write {path}: {error.strerror}") from None

    def get(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise RemoteError(f"cannot read {path}: {error.strerror}") from None

    def stream(self, argv: Sequence[str], *, what: str, stop: Callable[[], bool] | None = None) -> Iterator[bytes]:
        with (
            tempfile.TemporaryFile() as error,
            subprocess.Popen(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=error) as process,
        ):
            assert process.stdout and process.stdin
            if stop is None:
                process.stdin.close()
            while True:
                if not select.select([process.stdout], [], [], 0.05)[0]:
                    if stop and stop():
                        process.stdin.close()
                        stop = None
                    continue
                if not (data := os.read(process.stdout.fileno(), 65536)):
                    break
                yield data
            process.wait()
            error.seek(0)
            Completed(process.returncode, "", error.read().decode(errors="replace")).check(what)

    def follow(self, path: str, *, stop: Callable[[], bool], outlast: Outlast | None = None) -> Iterator[str]:
        rest, stopping = b"", False
        with open(path, "rb") as file:
            while True:
                if data := file.read(65536):
                    *lines, rest = (rest + data).split(b"\n")
                    yield from (line.decode(errors="replace") for line in lines)
                elif stopping:
                    if rest:
                        yield rest.decode(errors="replace")
                    return
                elif not (stopping := stop()):
                    time.sleep(0.05)

    def close(self) -> None:
        pass
