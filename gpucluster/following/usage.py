"""How busy nodes and GPUs are and were: the samples of Prometheus on the head node, and the summary of an ended job."""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpucluster import ports
from gpucluster.errors import RemoteError
from gpucluster.following import jobs
from gpucluster.head.remote import Remote

UNITS = {
    "gpu_util_percent": "%",
    "gpu_memory_gib": "GiB",
    "gpu_power_w": "W",
    "gpu_sm_clock_mhz": "MHz",
    "gpu_temperature_c": "°C",
    "nvlink_gib_s": "GiB/s",
    "cpu_percent": "%",
    "memory_gib": "GiB",
    "network_gib_s": "GiB/s",
    "efa_gib_s": "GiB/s",
    "disk_read_gib_s": "GiB/s",
    "disk_write_gib_s": "GiB/s",
    "io_wait_percent": "%",
    "efa_retransmits_s": "/s",
}
"""The name of each series, and its unit."""


_API = f"http://127.0.0.1:{ports.PROMETHEUS}/api/v1/"
_GIB = 2**30
_POINTS = 500
_FEWEST_POINTS = 60
_POINTS_OF_GPUS = 100_000
"""The points of one name on all nodes, with eight GPUs each: 64 nodes have 195 for each GPU, which are 5 MB."""
_SCRAPE_S = 10
"""As in bootstrap/steps/watch/prometheus.sh."""
_RATE_S = 40
"""The shortest window of a rate: it needs two scrapes, and one may be late or lost."""
_FRESH_S = 25
"""A node whose newest sample is older does not run, or does not answer."""
_LIMIT_S = 25
_POWER_CAP = "power cap"
"""A reason in bootstrap/gpucluster_node/watch/nvml.py."""
_ABSENT = "monitoring.prometheus must be on, and `gpucluster up` installs it; docs/seeing.md"

# %(nodes)s: a selector of nodes; %(mean)s and %(rate)s: windows.
_QUERIES = {
    "gpu_util_percent": "avg_over_time(gpucluster_gpu_util_percent{%(nodes)s}[%(mean)s])",
    "gpu_memory_gib": f"avg_over_time(gpucluster_gpu_memory_used_bytes{{%(nodes)s}}[%(mean)s]) / {_GIB}",
    "gpu_power_w": "avg_over_time(gpucluster_gpu_power_watts{%(nodes)s}[%(mean)s])",
    "gpu_sm_clock_mhz": "avg_over_time(gpucluster_gpu_sm_clock_mhz{%(nodes)s}[%(mean)s])",
    "gpu_temperature_c": "avg_over_time(gpucluster_gpu_temperature_celsius{%(nodes)s}[%(mean)s])",
    "nvlink_gib_s": f"rate(gpucluster_gpu_nvlink_bytes_total{{%(nodes)s}}[%(rate)s]) / {_GIB}",
    "cpu_percent": "avg_over_time(gpucluster_cpu_percent{%(nodes)s}[%(mean)s])",
    "memory_gib": f"(node_memory_MemTotal_bytes{{%(nodes)s}} - node_memory_MemAvailable_bytes{{%(nodes)s}}) / {_GIB}",
    "network_gib_s": "(sum by (instance) (rate(node_network_receive_bytes_total{%(nodes)s}[%(rate)s])) + "
    f"sum by (instance) (rate(node_network_transmit_bytes_total{{%(nodes)s}}[%(rate)s]))) / {_GIB}",
    "efa_gib_s": 'sum by (instance) (rate(gpucluster_efa_total{%(nodes)s,counter=~"[tr]x_bytes"}[%(rate)s])) / '
    f"{_GIB}",
    "disk_read_gib_s": f"sum by (instance) (rate(node_disk_read_bytes_total{{%(nodes)s}}[%(rate)s])) / {_GIB}",
    "disk_write_gib_s": f"sum by (instance) (rate(node_disk_written_bytes_total{{%(nodes)s}}[%(rate)s])) / {_GIB}",
    "io_wait_percent": '100 * sum by (instance) (rate(gpucluster_cpu_seconds_total{%(nodes)s,mode="iowait"}[%(rate)s]))'
    " / sum by (instance) (rate(gpucluster_cpu_seconds_total{%(nodes)s}[%(rate)s]))",
    "efa_retransmits_s": "sum by (instance) (rate(gpucluster_efa_total{%(nodes)s,"
    'counter=~"retrans_pkts|rx_drops|impaired_remote_conn_events"}[%(rate)s]))',
}
_NOW = (
    '{__name__=~"gpucluster_gpu_(util_percent|memory_used_bytes|memory_bytes|power_watts|temperature_celsius|slowed)'
    f'|gpucluster_job_info|gpucluster_cpu_percent|node_memory_Mem(Total|Available)_bytes"}}[{_FRESH_S}s]'
)

# Prometheus's answers, one after another, to the requests of stdin: lines of `path` and of a form. A form is not an
# argument, because thousands of nodes would be too long for one. Prometheus compresses its answers: the page asks for
# the newest samples every few seconds, and those of 512 GPUs are 480 kB, or 60 kB like this. A user's proxy and
# ~/.curlrc are for the internet.
_ASK = r"""
set -o pipefail
while read -r path && read -r form; do
  printf '%s' "$form" |
    curl -q -sS --noproxy '*' --max-time "$2" -H 'Accept-Encoding: gzip' --data-binary @- "$1$path" |
    base64 -w 0 || exit
  echo
done
"""
# The number that Slurm's programs on the node know an element of an array by.
_OWN_NUMBER = r"""
id=$(squeue --noheader --jobs="$1" --format=%A 2>/dev/null | head -n 1)
[ -n "$id" ] || id=$(sacct --noheader --allocations --parsable2 --jobs="$1" --format=JobIDRaw 2>/dev/null | head -n 1)
echo "$id"
"""
# An element's folder is in the array's, whose files have the element's own number.
_SUMMARIES = r"""
cd "$1" 2>/dev/null || exit 0
id=$2
case $id in *_*)
  cd .. && id=$(squeue --noheader --jobs="$2" --format=%A 2>/dev/null)
  [ -n "$id" ] || id=$(sacct --noheader --allocations --parsable2 --jobs="$2" --format=JobIDRaw 2>/dev/null | head -n 1)
esac
[ -n "$id" ] || exit 0
for file in "usage/$id"/*.json; do [ -f "$file" ] && head -c 100000 "$file" && echo; done
exit 0
"""


class Unavailable(RemoteError):
    """There are no samples: no Prometheus, or an older cluster. The message is a sentence that says why."""


@dataclass(frozen=True)
class Series:
    node: str
    gpu: int | None
    """None: of the whole node."""
    name: str
    unit: str
    points: tuple[tuple[float, float], ...]
    """Unix seconds and value, oldest first."""


@dataclass(frozen=True)
class GpuNow:
    index: int
    util_percent: float
    memory_used_gib: float
    memory_gib: float
    power_w: float
    temperature_c: float
    throttled: tuple[str, ...]
    """Why its clocks are lowered, in words; empty if they are not. Not its power cap, which is normal at full load."""
    has_job: bool | None = None
    """None: the node's sampler does not say which GPUs its jobs have."""


@dataclass(frozen=True)
class NodeNow:
    node: str
    at_s: float
    cpu_percent: float
    """The share of all cores: 0 to 100."""
    memory_used_gib: float
    memory_gib: float
    gpus: tuple[GpuNow, ...]


def series(
    remote: Remote,
    nodes: Collection[str],
    start_s: float,
    end_s: float,
    names: Sequence[str] = (),
    step_s: float | None = None,
) -> list[Series]:
    """`names`: of UNITS, by default all. At most some 500 points each, and fewer of many nodes. Raises Unavailable."""
    chosen = [name for name in _QUERIES if not names or name in names]
    if not nodes or not chosen or end_s <= start_s:
        return []
    points = max(_FEWEST_POINTS, min(_POINTS, _POINTS_OF_GPUS // (8 * len(nodes))))
    step = max(step_s or 0.0, (end_s - start_s) / points, _SCRAPE_S)
    values = {"nodes": _selector(nodes), "mean": f"{step:.0f}s", "rate": f"{max(step, _RATE_S):.0f}s"}
    times = {"start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step:.3f}"}
    asked = [("query_range", {"query": _QUERIES[name] % values, **times}) for name in chosen]
    answers = zip(chosen, _ask(remote, asked), strict=True)
    return [_series(name, found) for name, answer in answers for found in answer]


Owned = Mapping[str, frozenset[int]]
"""Node -> the GPUs that a job has there. A node whose sampler does not say it is missing."""


def gpus_of(remote: Remote, job_id: str, nodes: Collection[str], start_s: float, end_s: float) -> Owned:
    """Other jobs may have the other GPUs of these nodes. Raises Unavailable."""
    number = remote.run(["sh", "-c", _OWN_NUMBER, "sh", job_id]).stdout.strip() if "_" in job_id else job_id
    if not (nodes and number.isdecimal() and end_s > start_s):
        return {}
    labels = f'job="{number}",{_selector(nodes)}'
    query = f"last_over_time(gpucluster_job_info{{{labels}}}[{end_s - start_s + _SCRAPE_S:.0f}s])"
    (answer,) = _ask(remote, [("query", {"query": query, "time": f"{end_s:.3f}"})])
    found: dict[str, frozenset[int]] = {}
    for each in answer:
        node = each["metric"]["instance"]
        found[node] = found.get(node, frozenset()) | _listed(each["metric"].get("gpus", ""))
    return found


def _listed(gpus: str) -> frozenset[int]:
    """`0,3`, as gpucluster_node/watch/sampler.py writes them; empty: none."""
    return frozenset(int(each) for each in gpus.split(",") if each.isdecimal())


def own(found: Iterable[Series], gpus: Owned) -> list[Series]:
    """Without the GPUs that the job does not have."""
    return [each for each in found if each.gpu is None or each.gpu in gpus.get(each.node, (each.gpu,))]


def own_now(found: Iterable[NodeNow], gpus: Owned) -> list[NodeNow]:
    return [
        replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.index in gpus.get(node.node, (gpu.index,))))
        for node in found
    ]


def of_job(
    remote: Remote,
    job_id: str,
    nodes: Collection[str],
    start_s: float,
    end_s: float,
    names: Sequence[str] = (),
    step_s: float | None = None,
) -> list[Series]:
    """As `series`, of the job's own GPUs. Raises Unavailable."""
    found = series(remote, nodes, start_s, end_s, names, step_s)
    if all(each.gpu is None for each in found):
        return found
    return own(found, gpus_of(remote, job_id, nodes, start_s, end_s))


def _selector(nodes: Collection[str]) -> str:
    return f'instance=~"{"|".join(re.sub(r"[^A-Za-z0-9-]", "", node) for node in nodes)}"'


def _series(name: str, found: Mapping[str, Any]) -> Series:
    labels = found["metric"]
    points = tuple((float(at), float(value)) for at, value in found["values"])
    gpu = int(labels["gpu"]) if "gpu" in labels else None
    return Series(labels["instance"], gpu, name, UNITS[name], points)


def now(remote: Remote) -> list[NodeNow]:
    """The newest sample of each running node, by name. Raises Unavailable."""
    (answer,) = _ask(remote, [("query", {"query": _NOW})])
    newest: dict[str, _Newest] = {}
    for found in answer:
        newest.setdefault(found["metric"]["instance"], _Newest()).add(found["metric"], *found["values"][-1])
    return [each.node(name) for name, each in sorted(newest.items(), key=lambda item: _by_number(item[0]))]


class _Newest:
    """The newest values of a node, as they come."""

    def __init__(self) -> None:
        self._at_s = 0.0
        self._values: dict[tuple[str, int], float] = {}
        self._slowed: dict[int, list[str]] = {}
        self._taken: frozenset[int] | None = None

    def add(self, labels: Mapping[str, str], at_s: float, value: str) -> None:
        gpu = int(labels.get("gpu", -1))
        self._at_s = max(self._at_s, float(at_s))
        if labels["__name__"] == "gpucluster_gpu_slowed":
            self._slowed.setdefault(gpu, []).extend({labels["reason"]} - {_POWER_CAP})
        elif labels["__name__"] == "gpucluster_job_info":
            self._taken = (self._taken or frozenset()) | _listed(labels.get("gpus", ""))
        else:
            self._values[labels["__name__"], gpu] = float(value)

    def _value(self, name: str, gpu: int = -1) -> float:
        return self._values.get((name, gpu), 0.0)

    def node(self, name: str) -> NodeNow:
        total = self._value("node_memory_MemTotal_bytes")
        used = total - self._value("node_memory_MemAvailable_bytes")
        gpus = sorted({gpu for _, gpu in self._values if gpu >= 0})
        percent = self._value("gpucluster_cpu_percent")
        return NodeNow(name, self._at_s, percent, used / _GIB, total / _GIB, tuple(map(self._gpu, gpus)))

    def _gpu(self, index: int) -> GpuNow:
        return GpuNow(
            index,
            self._value("gpucluster_gpu_util_percent", index),
            self._value("gpucluster_gpu_memory_used_bytes", index) / _GIB,
            self._value("gpucluster_gpu_memory_bytes", index) / _GIB,
            self._value("gpucluster_gpu_power_watts", index),
            self._value("gpucluster_gpu_temperature_celsius", index),
            tuple(sorted(self._slowed.get(index, ()))),
            None if self._taken is None else index in self._taken,
        )


def _by_number(node: str) -> tuple[str, int]:
    name, _, number = node.rpartition("-")
    return (name, int(number)) if number.isdecimal() else (node, 0)


def _ask(remote: Remote, requests: Sequence[tuple[str, Mapping[str, str]]]) -> list[list[dict[str, Any]]]:
    """The results of Prometheus's HTTP API, of all requests in one round trip. Raises Unavailable."""
    from urllib.parse import urlencode

    lines = "".join(f"{path}\n{urlencode(form)}\n" for path, form in requests)
    done = remote.run(["bash", "-c", _ASK, "bash", _API, str(_LIMIT_S)], input=lines.encode(), timeout_s=2 * _LIMIT_S)
    if done.exit_code:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.exit_code}"])[-1]
        raise Unavailable(f"no Prometheus answers on the head node: {why}", _ABSENT)
    answers = list(_answers(done.stdout))
    if len(answers) != len(requests):
        raise Unavailable("Prometheus on the head node gave an answer that is not its own", _ABSENT)
    return answers


def _answers(text: str) -> Iterator[list[dict[str, Any]]]:
    """https://prometheus.io/docs/prometheus/2.45/querying/api/: one line of JSON each."""
    for line in text.splitlines():
        try:
            answer = json.loads(_plain(line))
        except (ValueError, OSError, EOFError, zlib.error):
            continue
        if answer.get("status") != "success":
            raise Unavailable(f"Prometheus on the head node refuses a question: {answer.get('error', answer)}", _ABSENT)
        yield answer["data"]["result"]


def _plain(line: str) -> bytes:
    """It may be as it was: Prometheus decides."""
    body = base64.b64decode(line)
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def summary(remote: Remote, job_id: str) -> Mapping[str, Any] | None:
    """An ended job's `nodes`, each with mean, max and p95 of its values and of its GPUs; `energy_kwh` and
    `idle_share` of all its GPUs. None if it has none: it runs, was too short, or an older version ran it."""
    done = remote.run(["sh", "-c", _SUMMARIES, "sh", jobs.folder_of(remote, job_id), job_id])
    found = [each for line in done.stdout.splitlines() if (each := _node(line))]
    return _of_nodes(found) if found else None


def _node(line: str) -> dict[str, Any] | None:
    """The job's user may have changed the file."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("gpus"), list) else None


def _of_nodes(nodes: list[dict[str, Any]]) -> dict[str, Any]:
    gpus = [gpu for node in nodes for gpu in node["gpus"] if isinstance(gpu, dict)]
    energy = [gpu["energy_kwh"] for gpu in gpus if isinstance(gpu.get("energy_kwh"), int | float)]
    idle = [gpu["idle_share"] for gpu in gpus if isinstance(gpu.get("idle_share"), int | float)]
    return {
        "nodes": sorted(nodes, key=lambda node: _by_number(str(node.get("node", "")))),
        "energy_kwh": round(sum(energy), 6) if energy else None,
        "idle_share": round(sum(idle) / len(idle), 4) if idle else None,
    }
