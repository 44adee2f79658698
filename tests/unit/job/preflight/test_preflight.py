"""The preflight's conclusions from reports of nodes, NCCL and nccl-tests."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from gpucluster.config import loads
from gpucluster.job import SbatchRequest, load, preflight
from gpucluster.layout import expand
from gpucluster_job.failures import Failure
from gpucluster_job.preflight import bandwidth, judge, nccl, probe
from gpucluster_job.runner import TIMED_OUT
from localcloud.testing.recorded import record

EXPECTED: dict[str, Any] = {
    "level": "quick", "gpus": 8, "efa": "auto", "efa_interfaces": {"p4d.24xlarge": 4}, "mounts": ["/home"],
    "cpus": 96,
    "published": None,
    "published_for_two": None,
    "compare_nodes": True,
}  # fmt: skip


def report(number: int = 1, **changed: Any) -> dict[str, Any]:
    healthy = {
        "node": f"train-{number}", "index": number - 1, "errors": {}, "sum": 3.0, "clock_offset_s": 0.001,
        "clock_error_s": 0.0005, "gpus": 8, "gpus_with_memory_errors": [], "efa_interfaces": 4, "writable": True,
        "mounts": [], "type": "p4d.24xlarge", "cpus": 96, "machine_cpus": 96, "allocated_cpus": 96,
    }  # fmt: skip
    without = {key: value for key, value in (healthy | changed).items() if value is not None}
    return without


def judged(*reports: dict[str, Any], nodes: int = 2, **expected: Any) -> Any:
    return judge.judge(EXPECTED | expected, list(reports), [f"train-{number}" for number in range(1, nodes + 1)])


def test_healthy_nodes_have_no_findings() -> None:
    findings = judged(report(1), report(2))
    assert (findings.errors, findings.warnings) == ([], [])
    assert findings.summary == "2 nodes, 8 GPUs each, 4 EFA interfaces each, clocks within 1 ms, they reach each other"


def test_one_gpu_and_one_interface_are_not_plural() -> None:
    one = {"gpus": 1, "efa_interfaces": 1}
    findings = judged(report(1, **one), report(2, **one), gpus=1, efa_interfaces={"p4d.24xlarge": 1})
    assert findings.summary.startswith("2 nodes, 1 GPU each, 1 EFA interface each, clocks within ")


LOST = "OSError: no connection to 10.0.0.1 port 20001 in 90 s: [Errno 110] Connection timed out"
ALONE = "TimeoutError: 0 of 1 other nodes came in 90 s"


@pytest.mark.parametrize(
    ("changed", "expected", "level", "text"),
    [
        ({"gpus": 7}, {}, "error", "train-2 has 7 of the 8 GPUs that the job asks for"),
        ({"gpus": 7}, {"gpus": 4}, None, ""),
        ({"gpus": None, "errors": {"gpus": "TimeoutError: no answer in 30 s"}}, {}, "warning", "the GPUs of train-2"),
        ({"gpus_with_memory_errors": ["3"]}, {}, "warning", "GPU 3 of train-2 has uncorrected memory errors"),
        ({"efa_interfaces": 3}, {}, "warning", "the EFA interfaces of train-2 are 3, expected 4: NCCL may use"),
        ({"efa_interfaces": 3}, {"efa": "required"}, "error", "the EFA interfaces of train-2 are 3, expected 4, and"),
        ({"efa_interfaces": None}, {"efa": "required"}, "warning", "the EFA interfaces of train-2 could not be"),
        ({"efa_interfaces": 0}, {"efa_interfaces": {}}, None, ""),
        ({"efa_interfaces": 1, "type": "g5.12xlarge"}, {"efa_interfaces": {"g5.12xlarge": 1, "x": 4}}, None, ""),
        ({"efa_interfaces": 1, "type": "HVM domU"}, {"efa_interfaces": {"a": 1, "b": 4}}, None, ""),
        ({"clock_offset_s": -2.5}, {}, "warning", "the clock of train-2 is -2.5 s off the first node's"),
        ({"clock_offset_s": 1.5, "clock_error_s": 0.6}, {}, None, ""),
        ({"writable": None, "errors": {"writable": "OSError: [Errno 28]"}}, {}, "warning", "train-2 cannot write to"),
        ({"mounts": ["/fsx"]}, {}, "warning", "nothing is mounted on /fsx of train-2"),
        ({"sum": 4.0}, {}, "error", "a sum over the nodes is 4 on train-2, expected 3"),
        ({"sum": None, "errors": {"sum": "ValueError: the numbers"}}, {}, "warning", "no sum over the nodes on"),
    ],
)  # fmt: skip
def test_findings_on_one_node(changed: dict, expected: dict, level: str | None, text: str) -> None:
    findings = judged(report(1), report(2, **changed), **expected)
    found = {"error": findings.errors, "warning": findings.warnings}
    for name, findings in found.items():
        assert len(findings) == (name == level), findings
    if level:
        ((node, said),) = found[level]
        assert node == "train-2"
        assert said.startswith(text)


@pytest.mark.parametrize(
    ("changed", "expected", "broken"),
    [
        ({"gpus": 7}, {}, "train-2 has 7 of the 8 GPUs that the job asks for"),
        ({"gpus": 7}, {"then": preflight.ADMINISTRATORS}, "train-2 has 7 of the 8 GPUs that the job asks for"),
        ({"gpus": None, "errors": {"gpus": "TimeoutError: no answer in 30 s"}}, {}, ""),
        ({"gpus_with_memory_errors": ["3"]}, {}, ""),
        ({"efa_interfaces": 3}, {}, ""),
        ({"efa_interfaces": 3}, {"efa": "required"}, "the EFA interfaces of train-2 are 3, expected 4, and the job "
                                                     "has efa: required"),
        ({"mounts": ["/fsx"]}, {}, ""),
        ({"sum": 7.0}, {}, "a sum over the nodes is 7 on train-2, expected 6"),
        ({"sum": None, "errors": {"sum": "ValueError: the numbers"}}, {}, ""),
    ],
)  # fmt: skip
def test_a_node_that_is_certainly_at_fault_is_broken(changed: dict, expected: dict, broken: str) -> None:
    reports = [report(1, sum=6.0), report(2, **{"sum": 6.0} | changed), report(3, sum=6.0)]
    findings = judged(*reports, nodes=3, **expected)
    assert findings.broken == ({"train-2": broken} if broken else {})


def test_a_fault_of_every_node_proves_none_broken() -> None:
    """The cause may be the job, such as variables that hide the interfaces. A job of one node has none to compare."""
    lost = {"efa_interfaces": 0}
    assert judged(report(1, **lost), report(2, **lost), efa="required").broken == {}
    assert list(judged(report(1, **lost), nodes=1, efa="required").broken) == ["train-1"]


def test_a_sum_that_is_wrong_on_all_nodes_or_on_all_but_the_first_proves_no_node_broken() -> None:
    for sums in ((4.0, 4.0), (3.0, 4.0), (4.0, 3.0)):
        findings = judged(*(report(number, sum=each) for number, each in enumerate(sums, start=1)))
        assert findings.errors and findings.broken == {}


@pytest.mark.parametrize(("others", "broken"), [("ConnectionError: the other node closed it", 1), (None, 0)])
def test_a_node_that_alone_cannot_reach_the_first_is_broken(others: str | None, broken: int) -> None:
    lost = [{"sum": None, "errors": {"sum": each}} for each in (ALONE, LOST, others or LOST)]
    findings = judged(*(report(number, **each) for number, each in enumerate(lost, start=1)), nodes=3)
    assert list(findings.broken) == ["train-2"] * broken and len(findings.errors) == 1


def test_a_warning_says_who_can_replace_the_node() -> None:
    ill = report(1, gpus_with_memory_errors=["3"], mounts=["/fsx"], sum=None)
    said = [text for _, text in judged(ill, nodes=1).warnings]
    assert said == [
        "GPU 3 of train-1 has uncorrected memory errors: an administrator's `gpucluster doctor --node train-1` tests "
        "it, and replaces it if it is broken",
        "nothing is mounted on /fsx of train-1: Slurm checks the node again after the job, and replaces it if it is "
        "broken",
    ]
    elsewhere = judged(ill, nodes=1, then=preflight.ADMINISTRATORS).warnings
    assert [text.rpartition(": ")[2] for _, text in elsewhere] == [preflight.ADMINISTRATORS] * 2


HALF = {"cpus": 48, "machine_cpus": 96, "allocated_cpus": 96}


def cpu_warnings(*reports: dict[str, Any], nodes: int = 2, **expected: Any) -> list[str]:
    findings = judged(*reports, nodes=nodes, **expected)
    assert (findings.errors, findings.broken) == ([], {}), "a job with half of its CPUs trains"
    return [text for _, text in findings.warnings if "CPUs" in text]


def test_a_node_whose_job_may_use_half_of_the_cpus_is_named() -> None:
    """The node of tests/data/slurm: `CPUs=96` on a p4d.24xlarge, where each step's mask has 48 of 96 CPUs."""
    assert cpu_warnings(report(1), report(2, **HALF), cpus=96) == [
        "the job may use only 48 of the 96 CPUs of train-2: data loaders are slower; compare ThreadsPerCore of "
        "`scontrol show node train-2` with `lscpu` there"
    ]


def test_nodes_with_the_same_shortfall_share_a_line() -> None:
    (text,) = cpu_warnings(*(report(number, sum=15.0, **HALF) for number in range(1, 6)), nodes=5, cpus=96)
    assert text.startswith("the job may use only 48 of the 96 CPUs of each of train-1, train-2, train-3 and 2 more: ")


@pytest.mark.parametrize(
    ("changed", "cpus", "warned"),
    [
        ({"cpus": 96, "machine_cpus": 96, "allocated_cpus": 96}, 96, ""),
        ({"cpus": 24, "machine_cpus": 96, "allocated_cpus": 24}, 0, ""),
        ({"cpus": 12, "machine_cpus": 96, "allocated_cpus": 24}, 0, "12 of the 24 CPUs that Slurm gave it on train-2"),
        ({"cpus": 48, "machine_cpus": 96, "allocated_cpus": 48}, 96, "48 of the 96 CPUs of train-2"),
        ({"cpus": 96, "machine_cpus": 192, "allocated_cpus": 96}, 96, ""),
        # A machine of the local cloud says that it has the CPUs of its type, and has those of the user's machine.
        ({"cpus": 2, "machine_cpus": 2, "allocated_cpus": 96}, 96, ""),
        ({"cpus": 1, "machine_cpus": 2, "allocated_cpus": 96}, 96, "1 of the 2 CPUs of train-2"),
        # A probe of an older job folder, or a machine that does not say.
        ({"cpus": None, "machine_cpus": None, "allocated_cpus": None}, 96, ""),
        ({"cpus": 48, "machine_cpus": 96, "allocated_cpus": None}, 0, ""),
    ],
)  # fmt: skip
def test_the_cpus_are_compared_with_the_type_or_with_what_slurm_gave(changed: dict, cpus: int, warned: str) -> None:
    found = cpu_warnings(report(1), report(2, **changed), cpus=cpus)
    assert [warned in text for text in found] == [True] * bool(warned), found


def test_another_clusters_administrators_are_told_of_the_cpus() -> None:
    (text,) = cpu_warnings(report(1), report(2, **HALF), cpus=0, then=preflight.ADMINISTRATORS)
    assert text == f"the job may use only 48 of the 96 CPUs that Slurm gave it on train-2: {preflight.ADMINISTRATORS}"


@pytest.mark.parametrize(
    ("said", "index", "cpus"),
    [("96(x2)", 1, 96), ("48(x2),24", 2, 24), ("48(x2),24", 1, 48), ("48", 1, None), ("", 0, None), ("8", 0, 8)],
)
def test_slurms_list_of_cpus_is_read(said: str, index: int, cpus: int | None) -> None:
    """The form of slurm_step_layout's uint32_compressed_to_str: `16,24(x2)` (Slurm, src/common/env.c)."""
    assert probe.allocated_cpus(said, index) == cpus


def test_a_process_sees_its_own_cpus_and_the_machines() -> None:
    found = probe.cpus(0)
    assert 0 < found["cpus"] <= found["machine_cpus"]
    assert found["cpus"] == len(os.sched_getaffinity(0))


def test_nodes_that_cannot_reach_each_other() -> None:
    findings = judged(report(1, sum=None, errors={"sum": ALONE}), report(2, sum=None, errors={"sum": LOST}))
    ((node, text),) = findings.errors
    assert node == "train-2"
    assert text.startswith("train-2 cannot reach train-1 (OSError: no connection to 10.0.0.1")
    assert findings.broken == {}, "the first node may be the cause"


@pytest.mark.parametrize(
    "reports",
    [
        [report(2, sum=None, errors={"sum": LOST})],
        [report(1, sum=None, errors={"sum": ALONE})],
        [report(1, sum=None, errors={"sum": "OSError: [Errno 98] Address already in use"}),
         report(2, sum=None, errors={"sum": LOST})],
        [],
    ],
)  # fmt: skip
def test_missing_evidence_is_no_error(reports: list) -> None:
    findings = judged(*reports)
    assert not findings.errors
    assert findings.warnings


def test_a_single_node_needs_no_efa() -> None:
    assert judged(report(1, efa_interfaces=0, sum=None), nodes=1).warnings == []
    assert judged(report(1, efa_interfaces=0, sum=None), nodes=1, efa="required").errors


def test_other_lines_than_reports_are_ignored() -> None:
    text = f"srun: job 7 queued\n{json.dumps(report(1))}\nTraceback\n" + json.dumps(report(2))[:-5]
    assert [each["node"] for each in judge.read(text)] == ["train-1"]


def test_the_nodes_sum_over_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    answers: dict[int, Any] = {}
    nodes = [
        threading.Thread(target=lambda index=index: answers.update({index: probe.meet(index, 5, "127.0.0.1", port)}))
        for index in range(5)
    ]
    for node in reversed(nodes):
        node.start()
    for node in nodes:
        node.join(30)
    assert [answers[index]["sum"] for index in range(5)] == [15.0] * 5
    assert all(abs(each["clock_offset_s"]) < 0.5 for each in answers.values())
    with socket.create_server(("127.0.0.1", port), reuse_port=False):
        pass  # the port is free for the launcher at once


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("p4d-4efa-libfabric1.11-rdm.txt", 4),
        ("p4de-4efa-libfabric1.19-rdm.txt", 4),
        ("efa-libfabric1.22.txt", 1),
        ("efa-libfabric2.1.txt", 1),
        ("efa-libfabric2.6.txt", 1),
        ("no-data.txt", 0),
    ],
)
def test_an_efa_interface_counts_once(name: str, count: int) -> None:
    assert probe.efa_interfaces((0, record(f"fi_info/{name}"))) == count


def test_gpus_as_nvidia_smi_lists_them() -> None:
    assert probe.gpus((0, "0, 0\n1, 3\n")) == {"gpus": 2, "gpus_with_memory_errors": ["1"]}
    assert probe.gpus((6, "No devices were found\n"))["gpus"] == 0
    with pytest.raises(RuntimeError, match="exited with code 9"):
        probe.gpus((9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"))


def said(*lines: str) -> str:
    return "".join(f"ip-10-0-0-1:100:200 [0] NCCL INFO {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "network", "interfaces"),
    [
        (said("NET/OFI Selected Provider is efa (found 4 nics)", "Using network AWS Libfabric"), "efa", 4),
        (said("NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)", "Using network Libfabric"),
         "efa", 16),
        (said("NET/OFI Selected Provider is tcp;ofi_rxm (found 2 nics)", "Using network AWS Libfabric"), "tcp", 2),
        (said("NET/Plugin: Could not find: libnccl-net.so.", "NET/Socket : Using [0]ens5:10.0.0.1<0>",
              "Using network Socket"), "Socket", None),
        (said("NET/Socket : Using [0]ens5:10.0.0.1<0>"), "Socket", None),
        (said("Assigned NET plugin Libfabric to comm", "Using network Libfabric",
              "NET/OFI Selected provider is efa, fabric is efa (found 1 nics)"), "efa", 1),
        (said("NET/OFI Selected provider is efa (found 4 nics)", "Using network Libfabric", "Using network Socket"),
         "Socket", 4),
        (said("cudaDriverVersion 13000"), None, None),
        ("", None, None),
    ],
)  # fmt: skip
def test_nccls_own_report(text: str, network: str | None, interfaces: int | None) -> None:
    rank = nccl.parse(text)
    assert (rank.network, rank.interfaces) == (network, interfaces)


def rank(network: str | None, interfaces: int | None = None) -> Any:
    return nccl.Rank(network, interfaces, None)


@pytest.mark.parametrize(
    ("ranks", "expected", "level", "text"),
    [
        ([rank("efa", 4)] * 2, {}, "", "NCCL's network is efa on 2 ranks"),
        ([rank("efa", 4), rank("Socket")], {}, "warning", "NCCL's network is efa on 1 rank, Socket on 1 rank; rank 1"),
        ([rank("Socket")], {"efa": "required"}, "error", "NCCL's network is Socket on 1 rank; rank 0 does not use EFA"),
        ([rank("Socket")], {"efa_interfaces": {}}, "", "NCCL's network is Socket on 1 rank"),
        ([rank("efa", 3)], {}, "warning", "NCCL uses 3 EFA interfaces, the instance type has 4"),
    ],
)
def test_the_network_of_all_ranks(ranks: list, expected: dict, level: str, text: str) -> None:
    found = nccl.summary(dict(enumerate(ranks)))
    got = nccl.sentence(found, EXPECTED | expected)
    assert got[0] == level
    assert got[1].startswith(text)


def test_a_job_without_nccl_has_no_network_to_tell_of(tmp_path: Path) -> None:
    (tmp_path / "rank-0.12.txt").write_text("")
    (tmp_path / "rank-chief.12.txt").write_text(said("Using network Socket"))
    assert nccl.summary(nccl.collect(tmp_path, None, 0)) is None


NCCL_TESTS = """
# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1   164.0    0.00    0.00      0    163.1    0.00    0.00      0
  1073741824     268435456     float     sum      -1    26217   40.96   76.79      0    26230   40.94   76.75      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 38.3
"""


def test_nccl_tests_table() -> None:
    assert bandwidth.read_nccl_tests(NCCL_TESTS) == {8: 0.0, 2**30: 76.79}
    with pytest.raises(ValueError, match="wrong results at 1073741824 bytes"):
        bandwidth.read_nccl_tests(NCCL_TESTS.replace("76.79      0", "76.79      5"))


def test_the_likeliest_cause_among_failed_ranks_is_named() -> None:
    failed = [Failure(2.0, 1, "3", "train-2", "RuntimeError: boom")]
    assert bandwidth.failure("", 1, failed) == (
        "train-2", "an all-reduce in the job's framework failed on rank 3 (train-2): RuntimeError: boom"
    )  # fmt: skip
    assert bandwidth.failure("a\nb\n", 7, [])[1].endswith("failed with exit code 7: b")


PUBLISHED = {"gb_per_s": 76.8, "source": "somewhere"}


@pytest.mark.parametrize(
    ("measured", "published", "efa", "key", "text"),
    [
        (76.8, PUBLISHED, "auto", "lines", "76.8 GB/s bus bandwidth at 1 GiB, 100% of the published 76.8 GB/s"),
        (50.0, PUBLISHED, "auto", "warnings", "50.0 GB/s bus bandwidth at 1 GiB, 65% of the published 76.8 GB/s"),
        (9.0, PUBLISHED, "auto", "warnings", "9.0 GB/s bus bandwidth"),
        (9.0, PUBLISHED, "required", "errors", "9.0 GB/s bus bandwidth"),
        (9.0, None, "required", "lines", "9.0 GB/s bus bandwidth at 1 GiB; no published figure for this type and"),
    ],
)
def test_bandwidth_against_the_published(measured: float, published: Any, efa: str, key: str, text: str) -> None:
    result = {"framework": "torch, nccl", "ranks": 16, "bytes": 2**30, "busbw_gb_per_s": measured}
    printed = f"[0]<stdout>:[0 train-1] {json.dumps(result)}\n"
    found = bandwidth.judge(EXPECTED | {"published": published, "efa": efa}, 0, printed, "", [])
    assert [len(found[each]) for each in ("errors", "warnings", "lines")] == [
        int(each == key) for each in ("errors", "warnings", "lines")
    ]
    assert found[key][0].startswith(f"torch, nccl, 16 ranks: {text}")


def test_one_rank_has_no_bandwidth() -> None:
    """It sends nothing. This is what one H100 printed."""
    result = {"framework": "torch, nccl", "ranks": 1, "bytes": 2**30, "seconds": 2.0487e-05, "busbw_gb_per_s": 0.0}
    found = bandwidth.judge(EXPECTED | {"published": None}, 0, f"[0 train-1] {json.dumps(result)}\n", "", [])
    assert (found["errors"], found["warnings"], found["lines"]) == ([], [], ["torch, nccl, 1 rank: the sum is right"])


PAIRS = [("train-1", "train-2"), ("train-3", "train-4"), ("train-2", "train-3"), ("train-4", "train-1")]
WHOLE = {"framework": "torch, nccl", "ranks": 32, "bytes": 2**30, "busbw_gb_per_s": 290.0, "pairs_follow": True}


def printed(*lines: dict[str, Any]) -> str:
    """By several ranks."""
    return "".join(f"[{number} train-1] {json.dumps(line)}\n" for number, line in enumerate(lines))


def judged_pairs(
    slow: float = 300.0, size: int = 2**30, code: int = 0, more: str = "", **expected: Any
) -> dict[str, Any]:
    """`slow`: GB/s of the pairs of train-2. Each pair is measured twice."""
    pairs = [{"pair": pair, "busbw_gb_per_s": slow if "train-2" in pair else 300.0} for pair in PAIRS]
    worse = [{**pair, "busbw_gb_per_s": 1.0} for pair in pairs]
    text = printed(WHOLE | {"bytes": size}, *pairs, *worse) + more
    return bandwidth.judge(EXPECTED | expected, code, text, "", [])


def test_pairs_of_a_jobs_nodes() -> None:
    found = judged_pairs()
    assert found["lines"][1:] == ["pairs of nodes: 300.0 to 300.0 GB/s bus bandwidth at 1 GiB"]
    assert found["measured"]["framework"]["pairs"] == [(*pair, 300.0) for pair in PAIRS]
    (warning,) = judged_pairs(90.0)["warnings"]
    assert warning.startswith("train-2 (90.0 GB/s with train-1, 90.0 GB/s with train-3) is slower than other nodes: ")


def test_nodes_that_may_differ_are_not_named() -> None:
    found = judged_pairs(90.0, compare_nodes=False)
    assert (found["warnings"], found["lines"][1:]) == (
        [], ["pairs of nodes: 90.0 to 300.0 GB/s bus bandwidth at 1 GiB"]
    )  # fmt: skip


def test_pairs_are_compared_with_the_figure_for_two_nodes_whatever_the_jobs_number() -> None:
    published = {"gb_per_s": 600.0, "source": "somewhere"}
    assert judged_pairs(published_for_two=published)["warnings"] == [
        "the fastest quarter of the pairs of nodes: 300.0 GB/s bus bandwidth at 1 GiB, 50% of the published 600 GB/s "
        "(somewhere), expected 70%"
    ]


def test_without_gpus_only_the_pairs_sums_count() -> None:
    found = judged_pairs(0.1, 2**22)
    assert (found["warnings"], found["lines"]) == ([], ["torch, nccl, 32 ranks: the sum is right"])


def test_a_wrong_sum_of_a_pair_ends_the_job() -> None:
    wrong = {"pair": ["train-2", "train-3"], "wrong": "an all-reduce over 16 ranks gave numbers from 1 to 2"}
    found = judged_pairs(code=1, more=printed(wrong, wrong))
    assert found["errors"] == [
        "a sum of the ranks on train-2 and train-3 is wrong, so one of the two nodes is broken: an all-reduce over 16 "
        "ranks gave numbers from 1 to 2"
    ]
    assert found["node"] == ""
    why = "a sum of the ranks on train-2 and train-3 is wrong, so one of the two nodes is broken"
    assert found["broken"] == {"train-2": why, "train-3": why}


def test_a_wrong_sum_of_a_jobs_only_node_names_it() -> None:
    wrong = {"pair": ["train-1"], "wrong": "an all-reduce over 8 ranks gave numbers from 1 to 2, expected 36"}
    failed = [Failure(2.0, 1, "3", "train-1", wrong["wrong"])]
    found = bandwidth.judge(EXPECTED, 1, printed(wrong), "", failed)
    assert (found["node"], found["broken"]) == ("train-1", {"train-1": "a sum of the ranks on train-1 is wrong"})


def test_a_rank_that_fails_proves_no_node_broken() -> None:
    """The job's own environment may be the cause."""
    failed = [Failure(2.0, 1, "3", "train-2", "ImportError: libcudnn.so.9: cannot open shared object file")]
    assert bandwidth.conclude(EXPECTED, 1, "", "", failed).broken == {}


def test_a_job_starts_if_only_its_pairs_could_not_be_measured() -> None:
    found = judged_pairs(code=TIMED_OUT, more="[3 train-2] waiting\n")
    assert found["errors"] == []
    assert found["warnings"] == [
        "pairs of nodes could not be measured: an all-reduce in the job's framework did not end within its five "
        "minutes: [3 train-2] waiting"
    ]
    assert found["lines"][0].startswith("torch, nccl, 32 ranks: 290.0 GB/s")


def test_a_rank_that_fails_after_the_first_one_has_printed_ends_a_job_without_pairs() -> None:
    """As Horovod's with TensorFlow: rank 0 does not wait for the other ranks' sums."""
    result = {"framework": "Horovod with TensorFlow", "ranks": 4}
    failed = [Failure(2.0, 1, "3", "train-2", "an all-reduce over 4 ranks gave numbers from 3 to 10, expected 10")]
    found = bandwidth.judge(EXPECTED, 1, printed(result), "", failed)
    assert (found["node"], len(found["errors"]), found["warnings"]) == ("train-2", 1, [])


def test_a_result_with_another_ranks_text_in_it_does_not_count() -> None:
    found = judged_pairs(more='[0 train-1] {"pair": ["train-1", "tr[7 train-2] NCCL INFO comm 0x1}\n')
    assert found["errors"] == found["warnings"] == []
    assert found["measured"]["framework"]["pairs"] == [(*pair, 300.0) for pair in PAIRS]


LAYOUT = expand(
    loads(
        """
name: Test
region: us-east-1
partitions:
  - {name: train, instance_types: [p4d.24xlarge], max_nodes: 8}
  - {name: tcp, instance_types: [p4d.24xlarge], max_nodes: 8, efa: "off"}
  - {name: mixed, instance_types: [g5.12xlarge, g5.24xlarge], max_nodes: 8}
parameter_servers: {instance_type: m6i.32xlarge}
"""
    )
)


PUBLISHED_FOR_P4D = {
    "gb_per_s": 76.8,
    "source": "p4de.24xlarge, which has the same network: awsome-distributed-ai, nccl-tests",
}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"nodes": 2}, {"gpus": 8, "efa_interfaces": {"p4d.24xlarge": 4}, "mounts": ["/home"]}),
        ({"partition": "tcp"}, {"efa_interfaces": {}}),
        ({}, {"cpus": 96}),
        ({"exclusive": False}, {"cpus": 0}),
        ({"partition": "mixed"}, {"cpus": 48}),
        ({"partition": "mixed"}, {"gpus": 4, "efa_interfaces": {"g5.12xlarge": 1, "g5.24xlarge": 1}}),
        ({"partition": "ps", "launcher": "srun"}, {"gpus": 0, "efa_interfaces": {}, "published": None}),
        ({"nodes": 3}, {"published": None, "published_for_two": PUBLISHED_FOR_P4D, "compare_nodes": True}),
        ({"nodes": 3, "exclusive": False}, {"compare_nodes": False}),
        ({"nodes": 3, "partition": "mixed"}, {"compare_nodes": False}),
        ({"nodes": 2, "gpus_per_node": 4}, {"published": None}),
    ],
)
def test_the_expected_hardware_of_nodes(flags: dict, expected: dict) -> None:
    spec = load(LAYOUT, flags={"command": ("a",)} | flags)
    got = SbatchRequest.from_spec(spec, LAYOUT, "/home/j").expected
    assert {key: got[key] for key in expected} == expected


def test_a_published_figure_is_for_its_number_of_nodes() -> None:
    spec = load(LAYOUT, flags={"command": ("a",), "nodes": 2})
    got = SbatchRequest.from_spec(spec, LAYOUT, "/home/j").expected
    assert got["published"] == PUBLISHED_FOR_P4D
