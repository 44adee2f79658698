"""Samples as Prometheus 2.45.3 (Ubuntu 24.04's) answered on 29 November 2026, about GPUs of the local cloud.

curl and the shell are real; the recorded answers come from a server of the test.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from gpucluster.following import usage
from gpucluster.head.remote import Completed

RECORDS = Path(__file__).resolve().parents[2] / "data/prometheus"


class Head:
    """This machine in the head node's place."""

    folder, path, sent_bytes = "", "", 0

    def run(
        self, argv: Sequence[str], *, input: bytes | None = None, timeout_s: float = 60, sent: Any = None
    ) -> Completed:
        environment = {"PATH": f"{self.path}/usr/bin:/bin", "http_proxy": "http://127.0.0.1:9"}  # for the internet
        done = subprocess.run(argv, input=input or b"", capture_output=True, timeout=timeout_s, env=environment)
        self.sent_bytes = len(done.stdout)
        return Completed(done.returncode, done.stdout.decode(), done.stderr.decode())

    def real(self, path: str) -> str:
        return f"{self.folder}/{path.rpartition('/by-id/')[2]}"


@pytest.fixture
def head() -> Any:
    return Head()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """The forms that Prometheus got. It answers with a record, by the query."""
    forms: list[dict[str, str]] = []

    class Prometheus(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            forms.append({key: values[0] for key, values in parse_qs(text).items()} | {"path": self.path})
            query = forms[-1]["query"]
            name = (
                "owned"
                if "last_over_time(gpucluster_job_info" in query
                else "now"
                if "__name__" in query
                else "util"
                if "util" in query
                else "network"
                if "network" in query
                else "refused"
            )
            body = (RECORDS / f"{name}.json").read_bytes().strip()
            self.send_response(400 if name == "refused" else 200)
            if self.headers["Accept-Encoding"] == "gzip" and name != "network":  # as Prometheus does
                self.send_header("Content-Encoding", "gzip")
                body = gzip.compress(body)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(usage, "_API", f"http://127.0.0.1:{server.server_port}/api/v1/")
    yield forms
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_newest_sample_of_each_node(head: Any, asked: list[dict[str, str]]) -> None:
    (node,) = usage.now(head)
    assert (node.node, len(node.gpus)) == ("train-1", 2)
    assert node.gpus[1] == usage.GpuNow(1, 0.0, 0.0, 24.0, 25.0, 30.0, ())
    assert 0 < node.memory_used_gib < node.memory_gib < 24
    assert 0 <= node.cpu_percent <= 100 and node.at_s > 1.7e9
    assert head.sent_bytes < (RECORDS / "now.json").stat().st_size / 3, "it travels compressed"


def test_slowed_gpus_have_reasons_but_not_their_power_cap() -> None:
    node = usage._Newest()
    for reason in ("temperature (hardware)", "power cap"):
        node.add({"__name__": "gpucluster_gpu_slowed", "gpu": "0", "reason": reason}, 1.0, "1")
    node.add({"__name__": "gpucluster_gpu_util_percent", "gpu": "0"}, 1.0, "99")
    (gpu,) = node.node("train-1").gpus
    assert (gpu.util_percent, gpu.throttled) == (99.0, ("temperature (hardware)",))


def test_the_gpus_of_a_job_are_those_that_the_samplers_name(head: Any, asked: list[dict[str, str]]) -> None:
    """The sampler knows them some seconds after the job's start, and an older one does not say them."""
    gpus = usage.gpus_of(head, "7", ["train-1", "train-2"], 1000.0, 1100.0)
    assert gpus == {"train-1": frozenset({1, 3})}
    query = 'last_over_time(gpucluster_job_info{job="7",instance=~"train-1|train-2"}[110s])'
    assert (asked[0]["query"], asked[0]["time"], asked[0]["path"]) == (query, "1100.000", "/api/v1/query")
    assert usage.gpus_of(head, "7", [], 0.0, 1.0) == usage.gpus_of(head, '7"}', ["train-1"], 0.0, 1.0) == {}
    series = [usage.Series(node, gpu, "x", "", ()) for node in ("train-1", "train-2") for gpu in (0, 1, None)]
    assert [(each.node, each.gpu) for each in usage.own(series, gpus)] == [
        ("train-1", 1), ("train-1", None), ("train-2", 0), ("train-2", 1), ("train-2", None)
    ]  # fmt: skip


def test_the_gpus_of_an_arrays_element_have_its_own_number(
    head: Any, tmp_path: Path, asked: list[dict[str, str]]
) -> None:
    head.path = f"{tmp_path / 'bin'}:"
    put(tmp_path / "bin/squeue", "#!/bin/sh\n[ $2 = --jobs=29_3 ] && echo 31\n")
    (tmp_path / "bin/squeue").chmod(0o755)
    usage.gpus_of(head, "29_3", ["train-1"], 1000.0, 1100.0)
    assert 'job="31"' in asked[0]["query"]


def test_a_gpu_of_a_shared_node_that_no_job_has_is_known() -> None:
    node = usage._Newest()
    for gpu in ("0", "1"):
        node.add({"__name__": "gpucluster_gpu_util_percent", "gpu": gpu}, 1.0, "0")
    assert [gpu.has_job for gpu in node.node("train-1").gpus] == [None, None]
    node.add({"__name__": "gpucluster_job_info", "job": "7", "gpus": "1"}, 1.0, "1")
    node.add({"__name__": "gpucluster_job_info", "job": "8", "gpus": ""}, 1.0, "1")
    assert [gpu.has_job for gpu in node.node("train-1").gpus] == [False, True]


def test_series_of_nodes_and_gpus_in_one_round_trip(head: Any, asked: list[dict[str, str]]) -> None:
    found = usage.series(head, ["train-1", 'x"} or {'], 1000.0, 11000.0, ["gpu_util_percent", "network_gib_s"])
    assert [(each.node, each.gpu, each.name, each.unit) for each in found] == [
        ("train-1", 0, "gpu_util_percent", "%"),
        ("train-1", 1, "gpu_util_percent", "%"),
        ("train-1", None, "network_gib_s", "GiB/s"),
    ]
    assert all(len(each.points) > 1 and each.points[0][0] < each.points[1][0] for each in found)
    util, network = asked
    assert (util["path"], util["start"], util["step"]) == ("/api/v1/query_range", "1000.000", "20.000")
    assert util["query"] == 'avg_over_time(gpucluster_gpu_util_percent{instance=~"train-1|xor"}[20s])'
    assert "[40s]" in network["query"], "a rate needs two scrapes"
    assert usage.series(head, [], 0.0, 1.0) == [] and len(asked) == 2
    usage.series(head, [f"train-{number}" for number in range(64)], 0.0, 19500.0, ["gpu_util_percent"])
    assert asked[2]["step"] == "100.000", "195 points each"


def test_every_name_has_a_unit_and_a_query() -> None:
    assert list(usage.UNITS) == list(usage._QUERIES)


def test_no_prometheus_is_said_in_words(head: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_API", "http://127.0.0.1:9/api/v1/")
    with pytest.raises(usage.Unavailable, match=r"no Prometheus answers on the head node: curl: \(7\)"):
        usage.now(head)


def test_what_prometheus_refuses_is_said_in_words(head: Any, asked: list[dict[str, str]]) -> None:
    with pytest.raises(usage.Unavailable, match="refuses a question: invalid parameter"):
        usage.series(head, ["train-1"], 0.0, 100.0, ["cpu_percent"])


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_summary_of_a_job_is_that_of_its_nodes(head: Any, tmp_path: Path) -> None:
    head.folder = str(tmp_path)
    assert usage.summary(head, "7") is None
    gpu = {"index": 0, "energy_kwh": 0.5, "idle_share": 0.25}
    for number in (10, 2):
        put(tmp_path / f"7/usage/7/train-{number}.json", json.dumps({"node": f"train-{number}", "gpus": [gpu]}))
    put(tmp_path / "7/usage/7/x.json", "[" * 99_999)
    put(tmp_path / "7/usage/7/y.json", '{"gpus": 1}')
    put(tmp_path / "7/usage/6/train-1.json", json.dumps({"node": "of an earlier run", "gpus": []}))
    found = usage.summary(head, "7")
    assert found and [node["node"] for node in found["nodes"]] == ["train-2", "train-10"]
    assert (found["energy_kwh"], found["idle_share"]) == (1.0, 0.25)


def test_the_summary_of_an_arrays_element_has_its_own_number(head: Any, tmp_path: Path) -> None:
    """Slurm's: the element 29_3 may be job 32. squeue forgets it, and sacct does not."""
    head.folder = str(tmp_path)
    put(tmp_path / "29/usage/32/train-1.json", json.dumps({"node": "train-1", "gpus": []}))
    put(tmp_path / "29/usage/29/train-1.json", json.dumps({"node": "train-9", "gpus": []}))
    (tmp_path / "29/3").mkdir()
    for command, number in (("squeue", ""), ("sacct", "32")):
        path = tmp_path / "bin" / command
        put(path, f"#!/bin/sh\necho {number}\n")
        path.chmod(0o755)
    assert usage.summary(head, "29_3") is None, "without Slurm nobody knows"
    head.path = f"{tmp_path}/bin:"
    found = usage.summary(head, "29_3")
    assert found and [node["node"] for node in found["nodes"]] == ["train-1"]
