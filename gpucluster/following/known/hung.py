"""Ranks that wait for others. The rank that reports a timeout is the one that waited: it is not to blame."""

from __future__ import annotations

from gpucluster.following.known.cause import Cause

HUNG = (
    Cause(
        "rank-missing",
        "hung",
        "rank",
        r"(?P<ranks>[Rr]anks? \d[\d, ]*) did not come to .+?, in which",
        "the others waited for {ranks}, which did not reach the same call",
        "look at what that rank did meanwhile: other code for one rank (evaluation, saving, logging), or data of "
        "unequal length",
        "gpucluster_job/hang.py",
    ),
    Cause(
        "collectives-differ",
        "hung",
        "rank",
        r"Detected mismatch between collectives on ranks\. Rank (?P<one>\d+) .*?, but Rank (?P<other>\d+) is running",
        "rank {one} and rank {other} call different collectives",
        "the ranks take different branches: compare the two calls in the message",
        "torch: torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp",
    ),
    Cause(
        "barrier-missed",
        "hung",
        "rank",
        r"(?P<ranks>Ranks? \d+(, \d+)*) failed to pass monitoredBarrier in (?P<limit>\d+) ms",
        "{ranks} did not come to the barrier within {limit} ms",
        "look at what that rank did meanwhile",
        "torch: torch/csrc/distributed/c10d/ProcessGroupGloo.cpp",
    ),
    Cause(
        "desync",
        "hung",
        "rank",
        r"\[(?P<rank>\d+)\] finished collective #\d+, but didn't join collective #(?P<number>\d+)",
        "rank {rank} did not come to collective number {number}",
        "look at what that rank did meanwhile",
        "records: torchrun/nccl-watchdog-timeout.txt",
    ),
    Cause(
        "horovod-stalled",
        "hung",
        "rank",
        r"Missing ranks:|waiting for remainder of ranks for more than \d+ seconds",
        "some ranks submitted tensors that others never did",
        "the missing ranks are in the lines below `Missing ranks`: they do other work, or took another branch",
        "Horovod: horovod/common/stall_inspector.cc",
    ),
    Cause(
        "loader-waits",
        "hung",
        "rank",
        r"DataLoader timed out after (?P<limit>[\d.]+) seconds",
        "the loader gave no batch within {limit} s: its storage or a worker hangs",
        "`gpucluster bench --feed` measures storage and loader apart",
        "torch: torch/utils/data/dataloader.py",
    ),
    Cause(
        "master-away",
        "hung",
        "rank",
        r"The client socket has timed out after \S+ while trying to connect to \((?P<where>[^)]+)\)",
        "rank 0's store at {where} was not reached: rank 0 did not start, has ended, or listens elsewhere",
        "use MASTER_ADDR and MASTER_PORT as they are set; then look at rank 0's lines",
        "torch: torch/csrc/distributed/c10d/socket.cpp; https://github.com/vllm-project/vllm/issues/19670",
        reports=True,
    ),
    Cause(
        "too-few-joined",
        "hung",
        "rank",
        r"Timed out after \d+ seconds waiting for clients\. (?P<came>\d+)/(?P<all>\d+) clients joined"
        r"|RendezvousTimeoutError|Timed out waiting for clients",
        "not all processes came to the start",
        "look for a node or rank that prints nothing: it is still installing, loading, or has ended",
        "torch: torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py",
        reports=True,
    ),
    Cause(
        "nccl-timeout",
        "hung",
        "rank",
        r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<number>\d+), OpType=(?P<what>\w+)",
        "this rank waited in {what} number {number} for one that did not come",
        "it is not the cause: look for the rank whose last line is older, or that is in other code; `hang_timeout` "
        "makes each rank say where it stands",
        "records: torchrun/nccl-watchdog-timeout.txt; https://github.com/sgl-project/sglang/issues/1693",
        reports=True,
    ),
    Cause(
        "gloo-timeout",
        "hung",
        "rank",
        r"Timed out waiting (?P<limit>\d+)ms for (recv|send) operation",
        "this rank waited {limit} ms for another one that did not come",
        "it is not the cause: look for the rank that is in other code; `hang_timeout` makes each rank say where it "
        "stands",
        "gloo: gloo/transport/tcp/unbound_buffer.cc, as torch 2.13 prints it",
        reports=True,
    ),
    Cause(
        "silent",
        "hung",
        "rank",
        r"no rank has printed a line for (?P<limit>.+?) \(hang_timeout\)",
        "no rank printed a line or wrote a file for {limit}",
        "where each rank stood is in the reason; without a cause there, `hang_timeout` is too short for a silent phase",
        "gpucluster_job/hang.py",
        reports=True,
    ),
)
