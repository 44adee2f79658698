"""NCCL's own report of the network that each rank uses: EFA, or TCP if its plug-in did not load."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster_job.log import say

LOG_BYTES = 8 * 2**20
"""How much of a log is read if the user sends NCCL's report there. NCCL reports when it starts."""

_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;-]+)")
_NICS = re.compile(r"\(found (\d+) nics\)")
_NETWORK = re.compile(r"NCCL INFO (?:Using network|Assigned NET plugin) (.+?)(?: to comm.*)?$")
_SOCKET = re.compile(r"NCCL INFO NET/Socket : Using ")
_VERSION = re.compile(r"NCCL version (\S+)")
_LABEL = re.compile(r"^\[(\d+) [^]]+\] (.*NCCL .*)$")


@dataclass(frozen=True)
class Rank:
    network: str | None
    """`efa`, or NCCL's name for the network; None before NCCL has reported it."""
    interfaces: int | None
    version: str | None


def parse(text: str) -> Rank:
    """One rank's report. If one of several communicators does not use EFA, that one counts."""
    providers, networks = _PROVIDER.findall(text), [_NETWORK.findall(line) for line in text.splitlines()]
    named = [found[0].strip() for found in networks if found]
    ways = [_way(name, providers) for name in named] or (["Socket"] if _SOCKET.search(text) else [])
    network = next((way for way in ways if way != "efa"), ways[0] if ways else None)
    nics, version = _NICS.findall(text), _VERSION.search(text)
    return Rank(network, int(nics[-1]) if nics else None, version[1] if version else None)


def _way(name: str, providers: list[str]) -> str:
    """The plug-in is called Libfabric, or AWS Libfabric before 1.12; another line names the provider that it found."""
    if "ofi" not in name.lower() and "libfabric" not in name.lower():
        return name
    return (providers[-1] if providers else "efa").partition(";")[0]


def collect(folder: Path, log: Path | None, log_start: int) -> dict[int, Rank]:
    """Reports by rank. A rank's program may start several processes, each with its own file; each file with a report
    counts."""
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
    """For result.json. None if no rank has reported: the job does not use NCCL."""
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
    """(level, text). `error`: the job must end; `warning`: it is slow; "": it is fine."""
    wanted = min(expected["efa_interfaces"].values(), default=0)
    ways = ", ".join(f"{network} on {count} rank{'s' * (count > 1)}" for network, count in found["networks"].items())
    if found["others"] and (wanted or expected["efa"] == "required"):
        first = found["others"][0]
        why = (
            f"NCCL's network is {ways}; rank {first} does not use EFA and is many times slower. Is aws-ofi-nccl's"
            f" libnccl-net.so on its LD_LIBRARY_PATH? NCCL's report: nccl/rank-{first}.*.txt in the job's folder"
        )
        return ("error", f"{why}; the job has efa: required") if expected["efa"] == "required" else ("warning", why)
    if found["interfaces"] is not None and found["interfaces"] < wanted:
        return "warning", f"NCCL uses {found['interfaces']} EFA interfaces, the instance type has {wanted}"
    return "", f"NCCL's network is {ways}"


class Watch:
    """Watches a running job. It reports once, and again if ranks that report later change the result."""

    def __init__(
        self, expected: dict[str, Any], reports: Path, log: Path | None, log_start: int, world_size: int
    ) -> None:
        self._expected, self._places, self._world_size = expected, (reports, log, log_start), world_size
        self._pause_s = 1.0
        self.report: dict[str, Any] = {}
        """For result.json; empty before any rank has reported."""

    @property
    def error(self) -> str:
        """Why the job must end: it has efa: required, and a rank uses another network."""
        return str(self.report["text"]) if self.report.get("level") == "error" else ""

    def look(self) -> float | None:
        """Seconds until the next look. None if no further look is needed: every rank has reported, or one rank does not
        use EFA in a job with efa: required."""
        ranks = collect(*self._places)
        spoken = [rank for rank in ranks.values() if rank.network]
        required = self._expected["efa"] == "required"
        if len(spoken) >= self._world_size or (required and any(rank.network != "efa" for rank in spoken)):
            self._tell(ranks)
            return None
        self._pause_s = min(self._pause_s * 1.2, 30.0)
        return self._pause_s

    def finish(self) -> None:
        """The reports at the end of the job."""
        self._tell(collect(*self._places))

    def _tell(self, ranks: dict[int, Rank]) -> None:
        found = summary(ranks)
        if found is None:
            return
        level, text = sentence(found, self._expected)
        report = {**found, "level": level or "ok", "text": text}
        if report != self.report:
            say(f"[preflight] {level + ': ' if level else ''}{text}")
        self.report = report
