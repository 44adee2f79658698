"""What NCCL itself reports of the network that each rank took: EFA, or TCP where its plug-in did not load.

`watch` waits until every rank has reported, `report` takes what is there. Both write nccl.json and speak once.
Exits with 3 where the job has efa: required and a rank goes another way.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FAILED = 3
LOG_BYTES = 8 * 2**20
"""Of a log that the user wanted NCCL's report in, as much is read: NCCL reports when it starts."""

_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;-]+)")
_NICS = re.compile(r"\(found (\d+) nics\)")
_NETWORK = re.compile(r"NCCL INFO (?:Using network|Assigned NET plugin) (.+?)(?: to comm.*)?$")
_SOCKET = re.compile(r"NCCL INFO NET/Socket : Using ")
_VERSION = re.compile(r"NCCL version (\S+)")
_LABEL = re.compile(r"^\[(\d+) [^]]+\] (.*NCCL .*)$")


@dataclass(frozen=True)
class Rank:
    network: str | None
    """efa, or what NCCL calls it; None while it has not said."""
    interfaces: int | None
    version: str | None


def parse(text: str) -> Rank:
    """One rank's report. Of several communicators, one that goes another way than EFA decides."""
    providers, networks = _PROVIDER.findall(text), [_NETWORK.findall(line) for line in text.splitlines()]
    named = [found[0].strip() for found in networks if found]
    ways = [_way(name, providers) for name in named] or (["Socket"] if _SOCKET.search(text) else [])
    network = next((way for way in ways if way != "efa"), ways[0] if ways else None)
    nics, version = _NICS.findall(text), _VERSION.search(text)
    return Rank(network, int(nics[-1]) if nics else None, version[1] if version else None)


def _way(name: str, providers: list[str]) -> str:
    """The plug-in calls itself Libfabric, AWS Libfabric before 1.12; the provider that it found has its own line."""
    if "ofi" not in name.lower() and "libfabric" not in name.lower():
        return name
    return (providers[-1] if providers else "efa").partition(";")[0]


def collect(folder: Path, log: Path | None, log_start: int) -> dict[int, Rank]:
    """By rank. A rank's program may start several processes: each has a file, and each that spoke counts."""
    texts: dict[int, str] = {}
    for path in sorted(folder.glob("rank-[0-9]*.txt")):
        number = int(path.name.split("-")[1].split(".")[0])
        texts[number] = texts.get(number, "") + path.read_text(errors="replace")
    if log and not texts:
        texts = _from_log(log, log_start)
    return {number: parse(text) for number, text in texts.items()}


def _from_log(log: Path, start: int) -> dict[int, str]:
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read(LOG_BYTES).decode(errors="replace").splitlines()
    texts: dict[int, str] = {}
    for match in filter(None, map(_LABEL.match, lines)):
        texts[int(match[1])] = texts.get(int(match[1]), "") + match[2] + "\n"
    return texts


def summary(ranks: dict[int, Rank]) -> dict[str, Any] | None:
    """For result.json; None where no rank has said anything: the job does not use NCCL."""
    spoken = {number: rank for number, rank in ranks.items() if rank.network}
    if not spoken:
        return None
    ways = Counter(rank.network for rank in spoken.values())
    interfaces = [rank.interfaces for rank in spoken.values() if rank.interfaces is not None]
    return {
        "networks": dict(ways.most_common()),
        "interfaces": min(interfaces, default=None),
        "version": next((rank.version for rank in spoken.values() if rank.version), None),
        "others": sorted(number for number, rank in spoken.items() if rank.network != "efa"),
    }


def sentence(found: dict[str, Any], expected: dict[str, Any]) -> tuple[str, str]:
    """(level, text): `error` where the job must not go on, `warning` where it is slow, "" where all is well."""
    wanted = min(expected["efa_interfaces"].values(), default=0)
    ways = ", ".join(f"{network} on {count} rank{'s' * (count > 1)}" for network, count in found["networks"].items())
    if found["others"] and (wanted or expected["efa"] == "required"):
        first = found["others"][0]
        why = (
            f"NCCL's network is {ways}; rank {first} does not use EFA: it is many times slower. Is aws-ofi-nccl's"
            f" libnccl-net.so on its LD_LIBRARY_PATH? NCCL's own words: nccl/rank-{first}.*.txt in the job's folder"
        )
        return ("error", f"{why}; the job has efa: required") if expected["efa"] == "required" else ("warning", why)
    if found["interfaces"] is not None and found["interfaces"] < wanted:
        return "warning", f"NCCL uses {found['interfaces']} EFA interfaces, the instance type has {wanted}"
    return "", f"NCCL's network is {ways}"


def settle(folder: Path, expected: dict[str, Any], ranks: dict[int, Rank]) -> int:
    found = summary(ranks)
    if found is None:
        return 0
    level, text = sentence(found, expected)
    spoken = folder / "nccl.json"
    before = spoken.read_text() if spoken.exists() else ""
    spoken.write_text(json.dumps(found | {"level": level or "ok", "text": text}))
    if spoken.read_text() != before:
        print(f"[preflight] {level + ': ' if level else ''}{text}", flush=True)
    if level == "error":
        (folder / "failure").write_text(f"\n{text}\n")
    return FAILED if level == "error" else 0


def watch(folder: Path, reports: Path, log: Path | None, log_start: int, world: int, launcher: int) -> None:
    """Until every rank has spoken. One that goes another way needs no others to be known; where the job has
    efa: required, it ends the launcher, whose process id is told."""
    expected, pause = json.loads((folder / "expected.json").read_text()), 1.0
    while True:
        ranks = collect(reports, log, log_start)
        spoken = [rank for rank in ranks.values() if rank.network]
        if len(spoken) >= world or (expected["efa"] == "required" and any(rank.network != "efa" for rank in spoken)):
            if settle(folder, expected, ranks):
                end(launcher)
            return
        time.sleep(pause)
        pause = min(pause * 1.2, 30.0)


def end(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
        time.sleep(10)
        os.kill(process, signal.SIGKILL)


def main() -> int:
    """usage: nccl.py report FOLDER REPORTS LOG|"" LOG_START, or watch with WORLD_SIZE and LAUNCHER_PID behind."""
    verb, folder, reports = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    log, log_start = Path(sys.argv[4]) if sys.argv[4] else None, int(sys.argv[5])
    if verb == "watch":
        watch(folder, reports, log, log_start, int(sys.argv[6]), int(sys.argv[7]))
        return 0
    return settle(folder, json.loads((folder / "expected.json").read_text()), collect(reports, log, log_start))


if __name__ == "__main__":
    sys.exit(main())
