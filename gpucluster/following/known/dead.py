"""Jobs whose programs ended early, by the error that ended the rank that failed first."""

from __future__ import annotations

from gpucluster.following.known.cause import Cause

_SHM = "`--container-shm-size` or fewer workers; without a container /dev/shm is half of the node's memory"

MEMORY = (
    Cause(
        "job-memory",
        "dead",
        "rank",
        r"at the job's limit of [\d.]+ GiB on this node|the job's limit of [\d.]+ GiB on this node was reached",
        "the job used more memory than it asked for on this node, and the kernel killed a process of it",
        "ask for more with `mem`; or lower `num_workers`, `prefetch_factor` and what each rank keeps in memory",
        "gpucluster_job/ranks/kernel.py: cgroup v2's memory.events",
    ),
    Cause(
        "memory",
        "dead",
        "rank",
        r"^out of memory: the kernel killed it(?! at the job's)|\(memory ran out: the kernel killed a process on this"
        r"|Detected \d+ oom[_-]kill events?(\(s\))? in (StepId=|step )|srun: error: \S+: tasks? \S+: Out Of Memory",
        "memory ran out, and the kernel killed a process of the job",
        "lower `num_workers`, `prefetch_factor` and what each rank keeps in memory, or take a larger instance type",
        "records: slurm/srun-and-slurmstepd-errors.txt; https://github.com/nextflow-io/nextflow/issues/5932",
    ),
    Cause(
        "gpu-memory",
        "dead",
        "rank",
        r"(OutOfMemoryError|RuntimeError): (CUDA|HIP) (error: )?out of memory|Cuda failure \d+ 'out of memory'"
        r"|ResourceExhaustedError.* OOM when allocating|cudaErrorMemoryAllocation|cudaMalloc failed: out of memory",
        "the GPU's memory was too small for what the program wanted",
        "a smaller batch, gradient checkpointing or mixed precision; if it grows from step to step, the program keeps "
        "tensors with their graph (`loss` instead of `loss.item()`)",
        "torch: c10/cuda/CUDACachingAllocator.cpp; https://github.com/NVIDIA/nccl/issues/1284",
    ),
    Cause(
        "shm-torch",
        "dead",
        "rank",
        r"unable to \w+ (shared memory|file|object)?.*</?torch_[^>]*>.*(No space left|Cannot allocate)"
        r"|is killed by signal: Bus error|Unexpected bus error encountered in worker",
        "/dev/shm is full: the loader's workers pass batches through it",
        _SHM,
        "https://github.com/pytorch/pytorch/issues/5040, https://github.com/facebookresearch/mmf/issues/441",
    ),
    Cause(
        "shm-nccl",
        "dead",
        "rank",
        r"failed to extend /dev/shm/nccl-|Error while (creating|attaching to) shared memory segment /dev/shm/nccl-",
        "/dev/shm is full: NCCL passes data between the GPUs of a node through it",
        _SHM,
        "https://github.com/NVIDIA/nccl-tests/issues/166, https://github.com/pytorch/ci-infra/pull/490",
    ),
    Cause(
        "loader-killed",
        "dead",
        "rank",
        r"DataLoader worker \(pid\(?s?\)? [^)]*\) (is killed by signal: Killed|exited unexpectedly)",
        "a worker of the DataLoader died: mostly because memory ran out",
        "fewer workers (`num_workers`) first; with `num_workers=0` the worker's own error is shown",
        "torch: torch/utils/data/dataloader.py (_try_get_data), torch/csrc/DataLoader.cpp",
    ),
)

STARTING = (
    Cause(
        "same-gpu",
        "dead",
        "rank",
        r"Duplicate GPU detected ?: ?rank (?P<one>\d+) and rank (?P<other>\d+) both on CUDA device (?P<gpu>\w+)"
        r"|Multiple Ranks are using the same GPU",
        "two ranks of a node use the same GPU",
        "call `torch.cuda.set_device(int(os.environ['LOCAL_RANK']))` before the first collective",
        "https://github.com/verl-project/verl/issues/161; NCCL: src/init.cc",
    ),
    Cause(
        "nccl-versions",
        "dead",
        "rank",
        r"Mismatched NCCL version detected",
        "the nodes have different versions of NCCL",
        "use one environment for all nodes: a venv on a node's own disk, or an image, differs from the others",
        "NCCL: src/init.cc",
    ),
    Cause(
        "no-interface",
        "dead",
        "rank",
        r"Bootstrap : no socket interface found",
        "NCCL_SOCKET_IFNAME names no interface of the node",
        "do not set NCCL_SOCKET_IFNAME: each node's own is set for you",
        "NCCL: src/bootstrap.cc",
    ),
    Cause(
        "port-taken",
        "dead",
        "rank",
        r"EADDRINUSE|errno: 98|Errno 98\]|[Aa]ddress already in use",
        "a port that the program wants to listen on is in use on its node",
        "take MASTER_PORT from the environment instead of a number of your own; it is free when the job starts",
        "torch: torch/csrc/distributed/c10d/socket.cpp",
    ),
    Cause(
        "wrong-binary",
        "dead",
        "rank",
        r"no kernel image is available for execution on the device",
        "the program was built for other GPUs than those of this instance type",
        "use the cluster's environment of this partition, or build for it with TORCH_CUDA_ARCH_LIST",
        "CUDA Runtime API: cudaErrorNoKernelImageForDevice",
    ),
    Cause(
        "old-driver",
        "dead",
        "rank",
        r"CUDA driver version is insufficient for CUDA runtime version|The NVIDIA driver on your system is too old",
        "the node's driver is older than the CUDA that the program was built with",
        "use a torch built for an older CUDA, or a newer image: `gpucluster status` shows the driver",
        "CUDA Runtime API: cudaErrorInsufficientDriver; torch: torch/csrc/cuda/Module.cpp",
    ),
    Cause(
        "no-gpu",
        "dead",
        "rank",
        r"No CUDA GPUs are available|Found no NVIDIA driver on your system|no CUDA-capable device is detected",
        "the program saw no GPU",
        "ask for GPUs with `gpus_per_node`, in a partition that has some, and do not set CUDA_VISIBLE_DEVICES yourself",
        "torch: torch/cuda/__init__.py (_lazy_init)",
    ),
    Cause(
        "module-missing",
        "dead",
        "rank",
        r"ModuleNotFoundError: No module named '(?P<name>[^']+)'",
        "its environment has no package {name}",
        "add it to `software.packages`, or fetch it with the code; docs/software.md says how",
        "Python: Lib/importlib/_bootstrap.py",
    ),
    Cause(
        "not-found",
        "dead",
        "rank",
        r"^\S+: (not found|No such file or directory|command not found)$",
        "the program that the job starts is not on the node",
        "paths are those of the node: the job starts in the copy of your folder, and `~` is /home",
        "execvp(3)",
    ),
)

BROKEN = (
    Cause(
        "gpu-ecc",
        "dead",
        "rank",
        r"uncorrectable ECC error encountered|hardware error|CUDA_ERROR_ECC_UNCORRECTABLE",
        "the GPU's memory is faulty: the program is not the cause",
        "submit it again: the node is drained and its instance replaced",
        "CUDA Runtime API: cudaErrorECCUncorrectable",
    ),
    Cause(
        "gpu-lost",
        "dead",
        "rank",
        r"GPU is lost|has fallen off the bus|unspecified launch failure|device is busy or unavailable",
        "the GPU stopped working while the program used it",
        "submit it again; `gpucluster status` shows whether the node was drained with an Xid",
        "records of nvidia-smi (gpu-lost.txt) and of dmesg; CUDA Runtime API: cudaErrorLaunchFailure",
    ),
    Cause(
        "gpu-access",
        "dead",
        "rank",
        r"an illegal memory access was encountered|device-side assert triggered",
        "a kernel on the GPU read outside its data, or an assertion in one failed: often a label or an index that is "
        "too large",
        "run it with CUDA_LAUNCH_BLOCKING=1: then the traceback shows the call; check labels against the number of "
        "classes",
        "CUDA Runtime API: cudaErrorIllegalAddress, cudaErrorAssert",
    ),
    Cause(
        "disk-full",
        "dead",
        "rank",
        r"\[Errno 28\]|No space left on device",
        "a disk is full, or has no room for more files",
        "the path is in the error: `gpucluster status` shows how full /home is; scratch is emptied after each job",
        "Linux: errno(3) ENOSPC",
    ),
    Cause(
        "quota-full",
        "dead",
        "rank",
        r"\[Errno 122\]|Disk quota exceeded",
        "the user's quota of the file system is used up",
        "delete files, or write to another file system",
        "Linux: errno(3) EDQUOT",
    ),
    Cause(
        "stale-files",
        "dead",
        "rank",
        r"\[Errno 116\]|Stale file handle",
        "a file was deleted or replaced on the file server while the program had it open",
        "write to a new name and rename it; do not change a job's folder while it runs",
        "Linux: errno(3) ESTALE",
    ),
    Cause(
        "permission",
        "dead",
        "rank",
        r"PermissionError: \[Errno 13\]|: Permission denied$",
        "its user may not read or write that file",
        "`gpucluster ssh -- ls -l PATH` shows whose it is",
        "Linux: errno(3) EACCES",
    ),
    Cause(
        "crash",
        "dead",
        "rank",
        r"killed by SIG(SEGV|BUS|ILL|FPE)|Signal \d+ \(SIG(SEGV|BUS|ILL|FPE)\) received by PID"
        r"|Fatal Python error: (Segmentation fault|Bus error)",
        "compiled code crashed: of a library, or of an extension",
        "PYTHONFAULTHANDLER=1 prints the Python line; often two versions of a library do not fit",
        "signal(7)",
    ),
    Cause(
        "killed",
        "dead",
        "rank",
        r"killed by SIGKILL|Signal 9 \(SIGKILL\) received by PID",
        "somebody or something killed it with SIGKILL, and the kernel did not do so for lack of memory",
        "look for `kill` in the program's own scripts, and for another process that watches it",
        "signal(7)",
    ),
    Cause(
        "terminated",
        "dead",
        "rank",
        r"killed by SIG(TERM|INT|HUP)|SignalException: Process \d+ got signal: (15|2|1)\b",
        "somebody or something asked it to end",
        "`gpucluster jobs` shows whether a user cancelled it",
        "torch: torch/distributed/elastic/multiprocessing/api.py; signal(7)",
    ),
)

SLURM = (
    Cause(
        "log-unwritable",
        "dead",
        "launcher",
        r"Could not open std(out|err) file|couldn't chdir to `",
        "Slurm could not open the job's log or its folder",
        "`gpucluster status` shows whether /home is full or away",
        "Slurm: src/slurmd/slurmstepd/io.c, task.c",
    ),
    Cause(
        "credential",
        "dead",
        "launcher",
        r"Munge decode failed: (?P<why>Expired|Rewound) credential|Job credential expired",
        "the clocks of the nodes differ, so Slurm's messages count as forged",
        "`gpucluster doctor --node NAME` compares the clock; a node with a wrong one is replaced",
        "Slurm: src/plugins/auth/munge/auth_munge.c",
    ),
    Cause(
        "lost-node",
        "dead",
        "launcher",
        r"CANCELLED AT \S+ DUE TO NODE FAILURE|^lost (a|the) node|srun: error: Node failure on (?P<node>\S+)",
        "a node of the job was lost",
        "the job runs again by itself unless it has `requeue: false`",
        "records: slurm/srun-and-slurmstepd-errors.txt",
    ),
    Cause(
        "time-limit",
        "dead",
        "launcher",
        r"CANCELLED AT \S+ DUE TO TIME LIMIT|^stopped at its time limit",
        "it reached its time limit",
        "ask for more with `time`, or keep its state in $GPUCLUSTER_STATE and let it go on",
        "records: slurm/srun-and-slurmstepd-errors.txt",
    ),
    Cause(
        "preempted",
        "dead",
        "launcher",
        r"CANCELLED AT \S+ DUE TO PREEMPTION|^preempted: ",
        "a job with a higher priority took its nodes",
        "it runs again when nodes are free",
        "records: slurm/srun-and-slurmstepd-errors.txt",
    ),
)

PEERS = (
    Cause(
        "peer-died",
        "dead",
        "rank",
        r"remote process exited or there was a network error|ncclRemoteError|Connection closed by (remote )?peer"
        r"|Connection reset by peer|Broken pipe|HorovodInternalError|failed to recv, got 0 bytes"
        r"|NCCL communicator was aborted"
        r"|Call to (recv|send|connect) .*failed|recvValue failed",
        "this rank only reports that another one has gone: the cause is there, or in the network",
        "look at the ranks that ended before it: `gpucluster logs {job}`; `gpucluster status` shows lost nodes",
        "https://github.com/NVIDIA/nccl/issues/795, https://github.com/pytorch/pytorch/issues/75512",
        reports=True,
    ),
)

DEAD = (*MEMORY, *STARTING, *BROKEN, *SLURM, *PEERS)
