"""Jobs that run, but more slowly than they could. NCCL and torch say some of it; samples show the rest."""

from __future__ import annotations

from gpucluster.following.known.cause import Cause

_EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html"
_NVML = "NVML: nvmlClocksEventReasons"
_SAMPLES = "samples of the nodes: docs/seeing.md#samples"

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
        "GPUs below 60 %, CPUs of the node above 90 %",
        "its GPUs wait while the CPUs are busy: the loader limits",
        "decode on the GPU, smaller pictures, or fewer other programs on the node; docs/slow.md#data",
        _SAMPLES,
    ),
    Cause(
        "storage-starved",
        "slow",
        "samples",
        "GPUs below 60 %, CPUs below 50 %, and more than 5 % of CPU time in waits for I/O or 0.05 GiB/s read",
        "its GPUs wait while the CPUs wait for reads: the storage limits",
        "larger shards, or `mode: copy` to the node's own disk; docs/slow.md#data",
        _SAMPLES,
    ),
    Cause(
        "gpu-idle",
        "slow",
        "samples",
        "all GPUs of the job below 5 % for ten minutes",
        "its GPUs do nothing",
        "`gpucluster ssh -- ssh NODE nvidia-smi` shows whether its processes are on them; a job that needs none should "
        "not have them",
        _SAMPLES,
    ),
    Cause(
        "one-gpu-idle",
        "slow",
        "samples",
        "a GPU below 5 %, the others' mean above 40 %",
        "this GPU is not used",
        "compare `ranks_per_node` with the node's GPUs; a rank may have ended, or use another's GPU",
        _SAMPLES,
    ),
    Cause(
        "slow-rank",
        "slow",
        "samples",
        "a GPU 15 points below the median of at least three others, which are within 10 points",
        "this GPU works less than the others: while they wait for its rank in an exchange, NCCL keeps them busy",
        "look at that node's disks and load, and at what that rank does more than others (evaluation, saving)",
        _SAMPLES,
    ),
    Cause(
        "low-clock",
        "slow",
        "samples",
        "a GPU's SM clock a quarter below the median of the job's GPUs, itself above 50 % busy",
        "this GPU's clock is lower than the others'",
        "`gpucluster doctor --node NODE`; if it stays so, terminate the instance, so that another one is launched",
        _NVML,
    ),
    Cause(
        "throttled-gpu",
        "slow",
        "samples",
        "the GPU's own reasons: power brake, hardware slow-down, heat (bits 0x8, 0x20, 0x40 and 0x80)",
        "this GPU has lowered its clock",
        "the program is not the cause: terminate the instance, so that another one is launched",
        _NVML,
    ),
    Cause(
        "efa-unused",
        "slow",
        "samples",
        "no bytes over EFA, more than 0.05 GiB/s over the other interfaces, in a job of several nodes that expects EFA",
        "the nodes exchange data past EFA",
        "the line `[preflight]` about NCCL in the log says which network it uses; docs/preflight.md",
        _SAMPLES,
    ),
    Cause(
        "retransmits",
        "slow",
        "samples",
        "more than 100 packets a second sent again or dropped by EFA",
        "EFA sends packets again or drops them: the network is congested or a card is faulty",
        "if one node has nearly all of them, terminate its instance; otherwise move less data at once",
        "Linux: drivers/infiniband/hw/efa/efa_verbs.c",
    ),
)

SLOW = (*LOGGED, *MEASURED)
