"""Prints what one node of the job has, as one line of JSON. Runs on every node at once, with the standard library only.

It does not judge. A value that could not be read is null, with the reason under `errors`.
"""

from __future__ import annotations

import array
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Dict

NUMBERS = 4096
"""Length of the vector that is summed: 32 KiB, so that packets of full size are sent."""
MEETING_S = 90.0
"""How long nodes wait for each other, because Slurm may start their tasks seconds apart."""
COMMAND_S = 30.0
NO_DATA = 61
"""fi_info's exit code if no interface suits: FI_ENODATA (libfabric's util/info.c: main)."""

_EQUAL_NODES = re.compile(r"(\d+)(?:\(x(\d+)\))?")

Report = Dict[str, Any]


def probe(folder: Path, expected: Report, node: str, index: int, nodes: int) -> Report:
    report: Report = {"node": node, "index": index, "errors": {}}
    smi = _start(
        "nvidia-smi", "--query-gpu=index,ecc.errors.uncorrected.volatile.total", "--format=csv,noheader,nounits"
    )
    efa = _start("fi_info", "-p", "efa", "-t", "FI_EP_RDM")
    with _noting(report, "sum"):
        if nodes > 1:
            report.update(meet(index, nodes, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    with _noting(report, "gpus"):
        report.update(gpus(_answer(smi)))
    with _noting(report, "efa_interfaces"):
        report["efa_interfaces"] = efa_interfaces(_answer(efa))
    with _noting(report, "writable"):
        report["writable"] = writable(folder, node)
    with _noting(report, "mounts"):
        report["mounts"] = missing(expected["mounts"], Path("/proc/self/mountinfo").read_text())
    with _noting(report, "cpus"):
        report.update(cpus(index))
    report["type"] = instance_type()
    return report


@contextmanager
def _noting(report: Report, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        report["errors"][what] = f"{type(error).__name__}: {error}"


def _start(program: str, *arguments: str) -> subprocess.Popen[str] | Exception:
    """What the job sets for its own program must not decide what the node has: FI_PROVIDER=tcp hides all EFA interfaces
    (libfabric's src/fabric.c: fi_ini), and a Conda environment may have a fi_info and a libfabric without EFA."""
    hidden = [f"--unset={name}" for name in os.environ if name.startswith(("FI_", "LD_"))]
    path = "/opt/amazon/efa/bin:" + os.environ["PATH"]
    try:
        return subprocess.Popen(
            ["env", *hidden, f"PATH={path}", program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except OSError as error:
        return error


def _answer(process: subprocess.Popen[str] | Exception) -> tuple[int, str]:
    """The exit code, as a shell gives it, and the output. Raises TimeoutError: a driver in a bad state may never
    answer."""
    if isinstance(process, Exception):
        raise process
    try:
        output = process.communicate(timeout=COMMAND_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise TimeoutError(f"no answer in {COMMAND_S:.0f} s") from None
    if process.returncode == 127:
        raise FileNotFoundError(output.strip())
    return process.returncode, output


def gpus(answer: tuple[int, str]) -> Report:
    code, text = answer
    rows = [line.split(",") for line in text.splitlines() if line.split(",")[0].strip().isdigit()]
    if not rows and code and "No devices" not in text:
        raise RuntimeError(f"nvidia-smi exited with code {code}: {text.strip()[:200]}")
    broken = [row[0].strip() for row in rows if row[-1].strip().isdigit() and int(row[-1]) > 0]
    return {"gpus": len(rows), "gpus_with_memory_errors": broken}


def efa_interfaces(answer: tuple[int, str]) -> int:
    """fi_info lists an interface once for each fabric and endpoint type: `rdmap16s27-rdm`, `rdmap16s27-dgrm`."""
    code, text = answer
    if code not in (0, NO_DATA):
        raise RuntimeError(f"fi_info exited with code {code}: {text.strip()[:200]}")
    domains = (line.partition("domain:") for line in text.splitlines())
    return len({name.strip().rpartition("-")[0] for _, label, name in domains if label})


def writable(folder: Path, node: str) -> bool:
    path = folder / f"written-by-{node}"
    path.write_text(node)
    path.unlink()
    return True


def missing(mounts: list[str], mountinfo: str) -> list[str]:
    there = {line.split()[4] for line in mountinfo.splitlines()}
    return [mount for mount in mounts if mount not in there]


def instance_type() -> str | None:
    """The instance type in the firmware. Instances on Xen (P3) and other machines have something else there."""
    with suppress(OSError):
        return Path("/sys/devices/virtual/dmi/id/product_name").read_text().strip()
    return None


def cpus(index: int) -> Report:
    """The CPUs that a step of the job may use here, those that Slurm gave the job, and those of the machine."""
    allocated = allocated_cpus(os.environ.get("SLURM_JOB_CPUS_PER_NODE", ""), index)
    return {"cpus": len(os.sched_getaffinity(0)), "allocated_cpus": allocated, "machine_cpus": _machine_cpus()}


def allocated_cpus(said: str, index: int) -> int | None:
    """Slurm's form has a number for each node, or `48(x2)` for two equal ones. None if it has no such node."""
    each = (_EQUAL_NODES.fullmatch(part) for part in said.split(","))
    by_node = [int(found[1]) for found in each if found for _ in range(int(found[2] or 1))]
    return by_node[index] if index < len(by_node) else None


def _machine_cpus() -> int:
    """Those that its first process may use. A machine of the local cloud may have fewer than its kernel counts."""
    with suppress(OSError):
        for line in Path("/proc/1/status").read_text().splitlines():
            if line.startswith("Cpus_allowed:"):
                return bin(int(line.split()[1].replace(",", ""), 16)).count("1")
    return os.cpu_count() or 0


def meet(index: int, nodes: int, address: str, port: int) -> Report:
    """The sum over all nodes, and the offset of this node's clock from the first node's. Raises OSError, ValueError."""
    own = array.array("d", [float(index + 1)]) * NUMBERS
    if index:
        return _join(own, index, address, port)
    return {"sum": _host(own, nodes, port), "clock_offset_s": 0.0, "clock_error_s": 0.0}


def _join(own: array.array[float], index: int, address: str, port: int) -> Report:
    with _connected(address, port) as link:
        asked = time.time()
        link.sendall(struct.pack("!i", index))
        (theirs,) = struct.unpack("!d", _receive(link, 8))
        answered = time.time()
        link.sendall(own.tobytes())
        total = array.array("d", _receive(link, 8 * NUMBERS))
    error = (answered - asked) / 2
    return {"sum": _uniform(total), "clock_offset_s": asked + error - theirs, "clock_error_s": error}


def _connected(address: str, port: int) -> socket.socket:
    """Repeats the attempt, because the first node may start last; until it listens, connections are refused."""
    until = time.monotonic() + MEETING_S
    while True:
        try:
            link = socket.create_connection((address, port), timeout=max(1.0, min(10.0, until - time.monotonic())))
            link.settimeout(MEETING_S)
            return link
        except OSError as error:
            if time.monotonic() > until:
                raise OSError(f"no connection to {address} port {port} in {MEETING_S:.0f} s: {error}") from None
            time.sleep(0.02)


def _host(own: array.array[float], nodes: int, port: int) -> float:
    with socket.create_server(("", port), backlog=nodes) as server:
        links = _accept(server, nodes - 1)
    try:
        others = _each(links, lambda link: array.array("d", _receive(link, 8 * NUMBERS)))
        total = array.array("d", map(sum, zip(own, *others)))  # noqa: B905 - Python 3.9 has no `strict`
        # The other nodes close first, so the port is free at once for the next program.
        _each(links, lambda link: link.sendall(total.tobytes()))
        _each(links, lambda link: link.recv(1))
    finally:
        for link in links:
            link.close()
    return _uniform(total)


def _accept(server: socket.socket, count: int) -> list[socket.socket]:
    """Answers each caller with the time at once, on its own thread: a delay would look like a wrong clock."""
    links: list[socket.socket] = []
    until = time.monotonic() + MEETING_S
    while len(links) < count:
        server.settimeout(max(0.1, until - time.monotonic()))
        try:
            link, caller = server.accept()
        except TimeoutError:
            raise TimeoutError(f"{len(links)} of {count} other nodes connected within {MEETING_S:.0f} s") from None
        link.settimeout(MEETING_S)
        _receive(link, 4)
        link.sendall(struct.pack("!d", time.time()))
        links.append(link)
    return links


def _each(links: list[socket.socket], act: Callable[[socket.socket], Any]) -> list[Any]:
    """Handles all links at once and raises the first error."""
    answers: list[Any] = [None] * len(links)

    def run(number: int) -> None:
        try:
            answers[number] = act(links[number])
        except Exception as error:
            answers[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(links))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = next((answer for answer in answers if isinstance(answer, Exception)), None)
    if failed:
        raise failed
    return answers


def _receive(link: socket.socket, size: int) -> bytes:
    parts, got = [], 0
    while got < size:
        part = link.recv(size - got)
        if not part:
            raise ConnectionError(f"the other node closed the connection after {got} of {size} bytes")
        parts.append(part)
        got += len(part)
    return b"".join(parts)


def _uniform(total: array.array[float]) -> float:
    if len(set(total)) != 1:
        raise ValueError("the numbers of the sum differ from each other: bytes were changed in transit")
    return total[0]


def main(words: list[str]) -> int:
    folder = Path(os.environ["GPUCLUSTER_JOB_DIR"], "preflight")
    expected = json.loads((folder / "expected.json").read_text())
    nodes = int(os.environ["NUM_NODES"])
    index = int(os.environ.get("SLURM_NODEID", 0)) if nodes > 1 else 0
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    print(json.dumps(probe(folder, expected, node, index, nodes)), flush=True)
    return 0
