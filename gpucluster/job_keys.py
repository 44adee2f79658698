"""The keys of a job, one row each: its option, the options of sbatch that it sets, its line in the documentation, and
whether it makes a run another run. gpucluster/job/spec.py has the types.

`submit`, `bench`, gpucluster/job and the tables of docs/jobs.md and docs/state.md read this table. It has plain data
only: `submit --help` loads it, and no model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

Form = Literal[
    "text", "number", "number or null", "choice", "choice or null", "list", "pairs", "switch", "flag", "command"
]
Controller = Literal["gloo", "mpi"]
Efa = Literal["auto", "required"]
Binding = Literal["numa", "none"]
Preflight = Literal["off", "quick", "full"]
Resubmit = Literal["until-done"]
Target = Literal["cluster", "sagemaker"]


class Key(NamedTuple):
    name: str
    flags: str = ""
    """The names of its option. Without them: its own name, with hyphens."""
    form: Form = "text"
    """What its option takes. A list is repeatable; pairs are a repeatable NAME=VALUE. The command has no option."""
    values: tuple[str, ...] = ()
    """The values of a choice."""
    metavar: str = ""
    help: str = ""
    sbatch: str = ""
    """The options of sbatch that it sets; the first has its letter. sbatch_args may contain none of them."""
    passed_on: Literal["", "each part", "workers"] = ""
    """The script passes its value to sbatch under the same name. A job whose servers have separate nodes has two
    parts."""
    aliases: str = ""
    """Its names in other tools, which job.yaml and the Python API also accept."""
    names_paths: bool = False
    """Its value may name a path on the cluster."""
    in_file: bool = True
    """job.yaml may have it. False: an option of `submit` alone."""
    meaning: str = ""
    """docs/jobs.md's, in a row of its own or in one that it begins."""
    default: str = ""
    """docs/jobs.md's."""
    another_run: str = ""
    """Why a run with another value is another run (see `sameness`)."""
    same_run: str = ""
    """Why it is not. Each key has one of these two reasons."""

    @property
    def option(self) -> str:
        return self.flags or f"--{self.name.replace('_', '-')}"


SECTIONS: dict[str, tuple[Key, ...]] = {
    "Name, size and time": (
        Key("name", flags="-J --name --job-name", metavar="NAME", help="Job name.  [default: the program's file name]",
            aliases="job_name", sbatch="job-name",
            meaning="name of the job, and with `project` of its [task](state.md)",
            default="the program's file name without its ending; without a `project` the job then belongs to no task",
            same_run="it says which task is compared"),
        Key("project", metavar="NAME", help="Project of the task.  [default with --name: the folder's name]",
            meaning="project of the task", default="the name of the uploaded folder", same_run="as name"),
        Key("nodes", flags="-N --nodes --num-nodes", form="number", metavar="N", help="Number of nodes.  [default: 1]",
            aliases="num_nodes", sbatch="nodes", meaning="number of nodes", default="1",
            another_run="the number of ranks changes the batch, and with it the result"),
        Key("target", flags="--on", form="choice", values=get_args(Target),
            help="Where it runs: the cluster, or SageMaker training.  [default: cluster]",
            meaning="`sagemaker` runs it as a training job of [SageMaker](sagemaker.md)", default="`cluster`",
            same_run="each place keeps its own runs"),
        Key("partition", flags="-p --partition", metavar="NAME", help="Partition to run on.  [default: the first]",
            aliases="queue", sbatch="partition", meaning="partition of cluster.yaml", default="the first one",
            same_run="it decides which machines compute, not what"),
        Key("gpus_per_node", flags="--gpus-per-node --gpus", form="number or null", metavar="N",
            aliases="gpus gpu accelerators", help="GPUs to use on each node.  [default: all]",
            sbatch="gpus-per-node gpus gpus-per-socket gpus-per-task gres", meaning="GPUs of each node", default="all",
            another_run="as nodes"),
        Key("ntasks_per_node", flags="--ntasks-per-node --nproc-per-node", form="number or null", metavar="N",
            aliases="tasks_per_node nproc_per_node",
            help="Ranks (processes of the program) on each node.  [default: one per GPU]",
            sbatch="ntasks-per-node ntasks ntasks-per-core ntasks-per-gpu ntasks-per-socket",
            meaning="ranks on each node", default="one per GPU", another_run="as nodes"),
        Key("time", flags="-t --time", metavar="TIME", aliases="timeout_min",
            help="Time limit, such as 90m, 2:00:00 or 1-12:00:00.  [default: none]", sbatch="time",
            meaning="time limit: `2:00:00`, `1-12:00:00`, `90m`", default="none",
            same_run="a run that succeeded was not stopped by it"),
    ),
    "Program": (
        Key("command", form="command", sbatch="input wrap", aliases="run",
            meaning="what every rank runs; on the command line, after `--`", default="required",
            another_run="it is what runs", names_paths=True),
        Key("launcher", metavar="NAME", aliases="type distribution",
            help="What starts the ranks: torchrun, horovodrun, mpirun, srun, smddp, mxnet-ps, tensorflow-ps, "
            "tensorflow-mwms.  [default: torchrun]",
            meaning="program that starts the ranks, see [launchers.md](launchers.md)", default="`torchrun`",
            another_run="it decides how ranks find each other, and their environment"),
        Key("framework", metavar="NAME",
            help="Python environment of the ranks: torch, horovod, smddp, mxnet, tensorflow.  [default: the "
            "launcher's own]", meaning="environment of the ranks: `torch`, `horovod`, `smddp`, `mxnet`, `tensorflow`",
            default="the launcher's own", another_run="the ranks' packages"),
        Key("controller", form="choice", values=get_args(Controller),
            help="With horovodrun: how its ranks coordinate.  [default: gloo]",
            meaning="for `horovodrun`: `gloo` or `mpi`", default="`gloo`", another_run="another way to sum gradients"),
        Key("min_nodes", form="number or null", metavar="N",
            help="With horovodrun: if nodes are lost, continue while N nodes are left.",
            meaning="for `horovodrun`: makes the job elastic; it continues while this many nodes are left",
            default="not elastic", another_run="an elastic job may continue with fewer ranks"),
        Key("servers", metavar="NODES|KEY=VALUE,...",
            help="Nodes for parameter servers: 2, or nodes=2,per_node=2, or ratio=1.  [default: the workers' nodes]",
            sbatch="het-group", meaning="for parameter servers: `{nodes: 2}` or `{ratio: 2}`, and `per_node`",
            default="on the workers' nodes", another_run="as nodes"),
        Key("env", form="pairs", metavar="NAME=VALUE", help="Environment variable for the ranks; repeatable.",
            aliases="envs env_vars environment", sbatch="export export-file",
            meaning="environment variables; a `PATH` here is put before the job's own. Variables of the dynamic "
            "loader, such as `LD_LIBRARY_PATH`, reach only the ranks' programs and torchrun. Those that Slurm or a "
            "launcher reads or sets, such as `SLURM_JOB_ID` and `RANK`, are refused, except `SLURM_MPI_TYPE` and "
            "`SLURM_CPU_BIND`: with `launcher: srun` they mean `--mpi` and `--cpu-bind`", default="none",
            another_run="programs read it", names_paths=True),
        Key("secrets", form="list", metavar="NAME",
            help="Environment variable of your shell for the ranks. No script and no log contains its value; "
            "repeatable.",
            meaning="names of variables of your shell; the ranks get their values, the script and the logs do not",
            default="none", same_run="keys to data, which change without changing the data"),
        Key("workdir", metavar="FOLDER",
            help="Folder to upload, in which the program runs.  [default: that of job.yaml, or the current one]",
            sbatch="chdir", meaning="directory to upload, at most 200 MiB, see below",
            default="the directory of job.yaml", same_run="the files in it are compared, wherever the folder is"),
        Key("signal", metavar="NAME@SECONDS",
            help="Signal for the ranks before the time limit: USR1@120 is 120 s before.", sbatch="signal",
            meaning="`USR1@120` sends USR1 to each rank's own process 120 s before the time limit, see "
            "[below](#signals)", default="none", same_run="it is sent only to a run that does not finish"),
        Key("hang_timeout", metavar="TIME",
            help="End the job if for TIME no rank prints a line or writes a file, such as 30:00 (minutes:seconds).",
            meaning="ends the job if no rank has printed a line or written a file for this long, see "
            "[below](#a-job-that-hangs): `30:00` is 30 minutes", default="none",
            same_run="it ends only a run that does not finish"),
        Key("metrics", form="pairs", metavar="NAME=REGEX",
            help="Metric of the job: a regular expression finds its values in the log; repeatable.",
            meaning="names, each with a regular expression for the log; see [seeing.md](seeing.md#metrics)",
            default="none", same_run="they are read from the log, which the run has"),
        Key("notify", form="list", metavar="email|VARIABLE[:EVENT,...]",
            help="Tell of the job's start, end, failure and hang: email, or a variable of your shell that has the "
            "address of a Slack or other webhook; only of some with :failure,hang; repeatable.",
            meaning="who gets a notice of the job's `start`, `end`, `failure` and `hang`: `email`, or the name of a "
            "variable of your shell with a webhook's address; `email:failure` gets failures alone, see "
            "[seeing.md](seeing.md#notices)", default="nobody",
            same_run="the notice is about the run, whatever it computes"),
    ),
    "Packages and containers": (
        Key("requirements", form="list", metavar="FILE",
            help="Packages to install for the ranks: a requirements.txt, pyproject.toml or uv.lock; repeatable.",
            meaning="packages to install for the ranks, see [Your own packages](#your-own-packages)", default="none",
            another_run="the ranks' packages: what they ask for, and the files that they name"),
        Key("with", form="list", metavar="PACKAGE", help="Package for the ranks, such as torchvision; repeatable.",
            in_file=False),
        Key("setup", form="list", metavar="LINE",
            help="Line of bash to run once after the packages are installed: 'pip install .'; repeatable.",
            meaning="lines of bash to run once, after the packages are installed", default="none",
            another_run="as requirements"),
        Key("python", metavar="FOLDER", help="Folder of a venv or conda environment on the cluster.",
            meaning="folder of a virtual environment or a conda environment, on shared storage, in which the ranks "
            "run", default="the cluster's environment",
            another_run="the ranks' packages: the folder's name, not what is in it"),
        Key("container_image", metavar="IMAGE", aliases="image",
            help="Run the ranks in this container: a registry's image, or a squashfs file.",
            meaning="[image](your-repo.md#containers) in which the ranks run; requires `software.containers: true`",
            default="the cluster's environment",
            another_run="the ranks' packages: the image's name, not what is behind a tag", names_paths=True),
        Key("container_mounts", form="list", metavar="FROM:TO[:ro]",
            help="Path to mount into the container; repeatable.",
            meaning="further paths inside the container: `FROM:TO[:ro]`", default="none",
            another_run="what the program can read", names_paths=True),
    ),
    "Data": (
        Key("channels", flags="--channel", form="pairs", metavar="NAME=SOURCE[,shard=…][,mode=…][,unpack=tar]",
            help="Input data: train=s3://bucket/prefix, train=/fsx/folder, train=./folder to upload it, or "
            "train=task:TASK,output=NAME for the output of another task; repeatable.",
            meaning="input data and which rank reads which part: `train: /fsx/imagenet`, see "
            "[data.md](data.md#channels-a-jobs-input-data)", default="none",
            another_run="the program's input: its location, not its content; for a task's output, also the run that "
            "made it", names_paths=True),
        Key("outputs", form="list", metavar="NAME",
            help="Folder that the job writes for other tasks to read; repeatable.",
            meaning="folders that the job writes for other tasks to read: `[shards]`, see [chains.md](chains.md)",
            default="none", another_run="as exports"),
        Key("exports", form="list", metavar="FOLDER",
            help="Lustre folder to export to S3 when the job ends; repeatable.",
            meaning="folders on Lustre that GpuCluster exports to S3 before the job counts as completed",
            default="none", another_run="where the result is written", names_paths=True),
    ),
    "Several jobs and runs": (
        Key("sweep", form="pairs", metavar="NAME=VALUES",
            help="Run once for each value: lr=0.1,0.01 or seed=1..5; repeatable, for all combinations. "
            "Appends --lr=0.1; for Hydra write lr={lr} in the command.",
            meaning="run the command several times, see [Sweeps](#sweeps)", default="once",
            another_run="the command's values"),
        Key("array", flags="-a --array", metavar="INDEXES",
            help="Run once for each index: 0-11, or 0-11%4 for four at a time.",
            sbatch="array", another_run="programs read their index"),
        Key("max_parallel", form="number or null", metavar="N",
            help="How many elements of a sweep or an array run at a time.  [default: all]",
            same_run="it decides when the elements run"),
        Key("after", form="list", metavar="JOB|TASK", help="Start after this job or task has succeeded; repeatable.",
            meaning="tasks and jobs that must have succeeded before this job starts: `[prepare, 12]`, see "
            "[chains.md](chains.md)", default="none", another_run="which runs came before it"),
        Key("requeue", form="switch", help="Run the job again if a node fails.  [default: --requeue]",
            sbatch="requeue no-requeue", meaning="run again after a node failure", default="yes",
            same_run="it decides what happens after a failure"),
        Key("state", metavar="FOLDER|s3://…",
            help="Where the task keeps its state: a folder on shared storage, or an S3 prefix.",
            meaning="folder on shared storage, or S3 prefix, for the files that a task's programs keep in "
            "`$GPUCLUSTER_STATE`; see [state.md](state.md)", default="in /home",
            same_run="where the state is kept, not what is computed from it"),
        Key("resubmit", form="choice or null", values=get_args(Resubmit),
            help="If the time limit stops the job, run it again from its state.",
            meaning="`until-done`: if the time limit stops a run, another run continues automatically", default="none",
            same_run="it decides what happens at the time limit"),
        Key("resubmit_limit", form="number or null", metavar="N",
            help="With --resubmit: at most N further runs.  [default: 20]",
            meaning="the maximum number of further runs", default="20", same_run="as resubmit"),
        Key("clean", flags="--clean-state", form="flag", help="Delete the task's state first.", in_file=False),
        Key("force", form="flag", help="Run, even if the task's last run succeeded with the same code and inputs.",
            in_file=False),
    ),
    "Checks before the program starts": (
        Key("preflight", form="choice", values=get_args(Preflight),
            help="Check the nodes first; full also measures bandwidth.  [default: quick]",
            meaning="check of the nodes before the command starts: `off`, `quick`, or `full`, which measures "
            "bandwidth; see [preflight.md](preflight.md)", default="`quick`", same_run="it checks the nodes"),
        Key("efa", form="choice", values=get_args(Efa),
            help="required: fail if NCCL would use TCP instead of EFA.  [default: auto]",
            meaning="`required` fails the job if NCCL would use TCP", default="`auto`",
            same_run="it decides how fast the ranks talk"),
    ),
    "Slurm": (
        Key("exclusive", form="switch", help="Share the nodes with no other job.  [default: --exclusive]",
            sbatch="exclusive oversubscribe", meaning="reserve whole nodes for this job", default="yes",
            same_run="it decides who else computes on the nodes"),
        Key("account", flags="-A --account", metavar="NAME", help="Slurm account to charge.", sbatch="account",
            passed_on="each part", meaning="Slurm account and quality of service; require `accounting`",
            default="Slurm's default", same_run="it decides who pays"),
        Key("qos", flags="-q --qos", metavar="NAME", help="Slurm's quality of service.", sbatch="qos",
            passed_on="each part", same_run="it decides when the job runs"),
        Key("mem", metavar="SIZE", aliases="memory mem_gb memMB",
            help="Memory on each node, such as 64G.  [default: all of it; with --no-exclusive Slurm's default]",
            sbatch="mem mem-per-cpu",
            meaning="memory on each node: `64G`. Slurm reserves and limits it with `slurm.memory: allocated` in "
            "cluster.yaml; else the nodes must have it, and the job may use all of theirs",
            default="all of a node's; with `exclusive: false` Slurm's default: the part of the job's CPUs",
            same_run="a run that succeeded had enough"),
        Key("mem_per_gpu", metavar="SIZE", help="The same for each GPU of the job, instead of --mem.",
            sbatch="mem-per-gpu", passed_on="workers", meaning="the same for each GPU, instead of `mem`",
            default="none", same_run="as mem"),
        Key("cpus_per_task", form="number or null", metavar="N", help="CPUs of each rank.  [default: an equal share]",
            sbatch="cpus-per-task",
            meaning="CPUs of each rank. A CPU is a thread of a core, of which most types have two. With "
            "`exclusive: false` Slurm gives a job whole cores, so an odd number on a node is rounded up",
            default="an equal share", same_run="it decides how fast a rank is"),
        Key("binding", form="choice", values=get_args(Binding),
            help="CPUs of each rank: those near its GPU (numa), or all of the job's (none).  [default: numa]",
            meaning="`numa`: each rank runs on the CPUs near its GPU; `none`: on all of the job's, see "
            "[launchers.md](launchers.md#cpus-of-a-rank)", default="`numa`", same_run="as cpus_per_task"),
        Key("constraint", flags="-C --constraint", metavar="FEATURES", help="Slurm features that the nodes must have.",
            sbatch="constraint", passed_on="workers",
            meaning="features that the nodes must have, such as the instance type: `g5.48xlarge`. Nodes of a partition "
            "of several types have none", default="none", same_run="as partition"),
        Key("reservation", metavar="NAME", help="Slurm reservation to run in.", sbatch="reservation",
            passed_on="workers", meaning="Slurm reservation to run in", default="none", same_run="as partition"),
        Key("dependency", flags="-d --dependency", metavar="TYPE:JOB_ID", aliases="depends_on",
            help="Start after other jobs, in sbatch's syntax: afterok:12,afterany:13.", sbatch="dependency",
            passed_on="workers", meaning="jobs to wait for: `afterok:12,afterany:13`", default="none",
            same_run="it decides when the job runs"),
        Key("begin", flags="-b --begin", metavar="TIME", help="Do not start before: 16:00, tomorrow, now+2hours.",
            sbatch="begin", passed_on="workers",
            meaning="earliest start: `16:00` by the clock of the cluster, which is UTC on our nodes, or `now+2hours`",
            default="none", same_run="it decides when the job runs"),
        Key("output", flags="-o --output", metavar="FILE",
            help="Second place for the job's log on the cluster, with sbatch's patterns: logs/%x-%j.out.",
            sbatch="output",
            meaning="a second place for the log, with sbatch's patterns: `logs/%x-%j.out`, see "
            "[below](#the-log-in-a-second-place)", default="none", same_run="it is a second place for the log",
            names_paths=True),
        Key("sbatch_args", form="list", metavar="OPTION", aliases="additional_parameters",
            help="Option to pass on to sbatch, such as --sbatch-args=--nice=100; repeatable.",
            meaning="list of further options of sbatch, such as `[--nice=100]`; options that another key sets are "
            "refused", default="none", same_run="they decide when and where the job runs", names_paths=True),
    ),
}  # fmt: skip
"""Title in `submit --help` -> its keys."""


def every() -> Iterator[Key]:
    for keys in SECTIONS.values():
        yield from keys


def of_job() -> Iterator[Key]:
    """Those that job.yaml may have."""
    return (key for key in every() if key.in_file)
