"""Jobs that run, but more slowly than they could. NCCL and torch say some of it; samples show the rest."""

from __future__ import annotations

from gpucluster.following.known.cause import Cause

_EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html"
_NVML = "NVML: nvmlClocksEventReasons"

LOGGED = (
    Cause(
        "too-many-workers",
        "slow",
        "rank",
        r"This DataLoader will create (?P<workers>\d+) worker processes in total\. Our suggested max number of worker "
        r"in current system is (?P<cpus>\d+)",
        "each rank starts {workers} loader workers and has {cpus} CPUs",
        "set num_workers from $SLURM_CPUS_PER_TASK",
        "torch: torch/utils/data/dataloader.py; https://github.com/luca-medeiros/lightning-sam/issues/43",
    ),
    Cause(
        "no-plugin",
        "slow",
        "NCCL",
        r"NET/Plugin: No plugin found|NET/OFI Couldn't find any optimal provider|provider efa output empty list",
        "NCCL did not find its plug-in for EFA, and uses TCP",
        "keep the node's LD_LIBRARY_PATH: aws-ofi-nccl's libnccl-net.so is on it; `efa: required` ends such a job",
        "records: nccl/no-plugin-sockets.txt, nccl/plugin-present-no-efa.txt",
    ),
    Cause(
        "tcp",
        "slow",
        "NCCL",
        r"Using network Socket|\[send\] via NET/Socket/",
        "NCCL sends over TCP",
        "on an instance type with EFA: see the plug-in; without EFA, larger instances need fewer messages",
        _EFA,
    ),
    Cause(
        "shm-path",
        "slow",
        "NCCL",
        r"Channel \d+(/\d+)? : (?P<one>\d+)\[\w+\] -> (?P<other>\d+)\[\w+\] via SHM/",
        "rank {one} and rank {other} of one node send through host memory instead of NVLink or PCIe",
        "GPUs of this type may have no direct path; otherwise unset NCCL_P2P_DISABLE; in a container share the IPC "
        "namespace",
        "https://github.com/NVIDIA/nccl/issues/1232",
    ),
    Cause(
        "net-inside-node",
        "slow",
        "NCCL",
        r"\bnNodes 1\b(?s:.*?)\[send\] via NET/",
        "GPUs of one node send through the network",
        "the ranks do not see each other's GPUs: one container or one cgroup for each rank; unset NCCL_P2P_DISABLE and "
        "NCCL_SHM_DISABLE",
        "NCCL: src/transport/net.cc",
    ),
    Cause(
        "data-wait",
        "slow",
        "result",
        "data_wait of result.json: percent above 5",
        "its ranks waited for data",
        "`gpucluster bench --feed` measures whether the loader or the storage limits",
        "gpucluster_train/feed.py",
    ),
)

MEASURED = (
    Cause(
        "data-starved",
        "slow",
        "samples",
        "GPU below 60 %, CPUs of the node above 90 %",
        "the GPUs wait while the node's CPUs are busy: the loader limits",
        "decode on the GPU, smaller pictures, or more CPUs for each GPU; docs/slow.md#data",
        "own samples",
    ),
    Cause(
        "storage-starved",
        "slow",
        "samples",
        "GPU below 60 %, CPUs below 50 %, bytes read from disk or network all the time",
        "the GPUs wait while the CPUs are idle and data is read: the storage limits",
        "larger shards, or `mode: copy` to the node's own disk; docs/slow.md#data",
        "own samples",
    ),
    Cause(
        "gpu-idle",
        "slow",
        "samples",
        "GPU below 10 % for ten minutes",
        "GPUs do nothing",
        "end it, or let it use them: `nvidia-smi` on the node shows whether its processes are there",
        "own samples",
    ),
    Cause(
        "one-gpu-idle",
        "slow",
        "samples",
        "one GPU below 10 % while the others' mean is above 40 %",
        "a GPU of the job is not used",
        "`gpus_per_node` and the number of ranks differ, or a rank has ended",
        "own samples",
    ),
    Cause(
        "slow-rank",
        "slow",
        "samples",
        "one GPU's mean is a third from the median of the others, which are within 10 %",
        "one rank is out of step with the others: they wait for it in each collective",
        "look at its node's disks, load and clocks; `gpucluster doctor --node NAME`",
        "own samples",
    ),
    Cause(
        "throttled-heat",
        "slow",
        "samples",
        "reasons 0x8, 0x20, 0x40 or 0x80 of the clock's mask in the newest samples",
        "a GPU's clock is held down by heat or its power supply",
        "nothing in the program: drain the node, so that its instance is replaced",
        _NVML,
    ),
    Cause(
        "low-clock",
        "slow",
        "samples",
        "SM clock a quarter below that of the same GPUs of the job, both busy",
        "a busy GPU's clock is lower than its peers'",
        "drain the node, so that its instance is replaced, if it stays so",
        _NVML,
    ),
    Cause(
        "efa-unused",
        "slow",
        "samples",
        "EFA bytes 0 while the network's other bytes are above 0.05 GiB/s",
        "the network's bytes go past EFA",
        "the line about NCCL in the log says which network it uses",
        "own samples",
    ),
)

SLOW = (*LOGGED, *MEASURED)
