"""Every rank sends rank 0 its job and its rank; a rank that meets another job's ranks prints this and fails.

With PAIR, a folder, rank 0 first waits there until the other job of the pair runs too.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
JOB = os.environ["SLURM_JOB_ID"]
FOLDER = Path(os.environ["GPUCLUSTER_JOB_DIR"])


def until(what: str, found, timeout_s: float = 600.0):
    deadline = time.monotonic() + timeout_s
    while not (answer := found()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)
    return answer


def wait_for_the_other(pair: Path) -> None:
    pair.mkdir(parents=True, exist_ok=True)
    (pair / JOB).touch()
    until("the other job of the pair", lambda: len(list(pair.iterdir())) == 2)


def gather() -> str:
    """torchrun listens on the rendezvous port itself; with other launchers the program does."""
    port = 0 if "TORCHELASTIC_RUN_ID" in os.environ else int(os.environ["MASTER_PORT"])
    with socket.create_server((os.environ["MASTER_ADDR"], port), backlog=SIZE) as server:
        (FOLDER / "meet.new").write_text(str(server.getsockname()[1]))
        (FOLDER / "meet.new").rename(FOLDER / "meet")
        told, ends = [(JOB, 0)], []
        while len(told) < SIZE:
            end, _ = server.accept()
            job, rank = end.recv(100).decode().split()
            told.append((job, int(rank)))
            ends.append(end)
        for end in ends:
            end.sendall(b"bye")
    strangers = {job for job, _ in told} - {JOB}
    assert not strangers, f"ranks of the jobs {strangers} came to job {JOB}"
    return f"ranks {sorted(rank for _, rank in told)}"


def report_to_first() -> None:
    port = int(until("where to meet", lambda: (FOLDER / "meet").exists() and (FOLDER / "meet").read_text()))
    with socket.create_connection((os.environ["MASTER_ADDR"], port), timeout=600) as end:
        end.sendall(f"{JOB} {RANK}".encode())
        assert end.recv(100) == b"bye"


if RANK == 0:
    if pair := os.environ.get("PAIR"):
        wait_for_the_other(Path(pair))
    print(gather(), flush=True)
else:
    report_to_first()
