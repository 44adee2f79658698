"""What may be asked for, what is refused and in which words, and where it is said to be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import SbatchRequest, load
from gpucluster.job.aliases import ALIASES
from gpucluster.job.spec import JobSpec, seconds_of, slurm_time
from gpucluster.layout import expand

LAYOUT = expand(
    loads(
        """
name: Test
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 4}
  - {name: big, instance_types: [p4d.24xlarge], max_nodes: 8}
  - {name: old, instance_types: [g5.xlarge], max_nodes: 2}
  - {name: tcp, instance_types: [p4d.24xlarge], max_nodes: 2, efa: "off"}
parameter_servers: {instance_type: m4.16xlarge}
"""
    )
)


def spec(**flags):
    return load(LAYOUT, flags={"command": ("python", "train.py")} | flags)


def from_file(tmp_path: Path, text: str, **flags):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return load(LAYOUT, path, flags)


def problems(call, *arguments, **keywords) -> list[str]:
    with pytest.raises(JobSpecError) as caught:
        call(*arguments, **keywords)
    return [f"{notice.key}: {notice.message} | {notice.hint or ''}" for notice in caught.value.problems]


def test_defaults_come_from_the_cluster():
    got = spec()
    assert (got.name, got.partition, got.nodes, got.gpus_per_node, got.world_size) == ("train", "train", 1, 4, 4)
    assert (got.launcher, got.efa, got.requeue, got.exclusive) == ("torchrun", "auto", True, True)


@pytest.mark.parametrize(
    ("flags", "ranks", "world"),
    [
        ({"nodes": 2}, 4, 8),
        ({"nodes": 2, "gpus_per_node": 2}, 2, 4),
        ({"nodes": 2, "gpus_per_node": 0}, 1, 2),
        ({"partition": "ps"}, 1, 1),
        ({"partition": "big", "nodes": 8}, 8, 64),
        ({"nodes": 2, "gpus_per_node": 2, "ntasks_per_node": 6}, 6, 12),
    ],
)
def test_ranks(flags, ranks, world):
    got = spec(**flags)
    assert (got.ranks_per_node, got.world_size) == (ranks, world)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "examples/digits/train_ddp.py", "--epochs", "3"), "train_ddp"),
        (("bash", "run me.sh"), "run-me"),
        (("nvidia-smi",), "nvidia-smi"),
        (("/opt/ünï/…",), "job"),
    ],
)
def test_name_left_out(command, name):
    assert spec(command=command).name == name


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("90", 5400), ("90:30", 5430), ("2:00:00", 7200), ("1-0", 86400), ("1-2:30", 95400), ("1-12:00:00", 129600),
        ("90m", 5400), ("24h", 86400), ("2d", 172800), ("30s", 30),
    ],
)  # fmt: skip
def test_time(time, seconds):
    assert seconds_of(time) == seconds
    assert seconds_of(slurm_time(seconds)) == seconds
    assert spec(time=time).time == slurm_time(seconds)


@pytest.mark.parametrize("time", ["yesterday", "1:2:3:4", "", "-5", "1-", "2 hours", "0", "1:99:00"])
def test_time_refused(time):
    assert problems(spec, time=time)[0].startswith("--time: must be ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"metrics": {"loss": "loss (.*"}}, "--metrics.loss: must be a regular expression: missing )"),
        (
            {"metrics": {"loss": "loss .*"}},
            "--metrics.loss: must have exactly one group, which captures the value, got 0: 'loss .*'",
        ),
        (
            {"metrics": {"loss": "(?P<step>.*)"}},
            "--metrics.loss: must have exactly one group, which captures the value, got 0: '(?P<step>.*)'",
        ),
        ({"metrics": {"lo ss": "(.*)"}}, "--metrics: must be up to 64 letters, digits and _ . : / -"),
        ({"partition": "trian"}, "--partition: the cluster Test has no partition 'trian' | did you mean 'train'?"),
        ({"nodes": 5}, "--nodes: the partition train has at most 4 nodes, got 5 |"),
        ({"nodes": 0}, "--nodes: must be at least 1, got 0"),
        ({"gpus_per_node": 8}, "--gpus-per-node: a node of train (g5.12xlarge) has 4 GPUs, got 8"),
        ({"launcher": "torchrn"}, "--launcher: there is no launcher 'torchrn' | did you mean 'torchrun'?"),
        ({"launcher": "smddp", "partition": "big"}, "--launcher: smddp needs smddp, which software.frameworks of the"),
        ({"launcher": "horovodrun", "framework": "torch"}, "--framework: horovodrun starts ranks of horovod or tensor"),
        ({"launcher": "mxnet-ps"}, "--launcher: mxnet-ps needs mxnet, which software.frameworks of the cluster Test"),
        (
            {"partition": "old", "efa": "required"},
            "--efa: EFA is required, but the partition old has types without EFA: g5.xlarge",
        ),
        ({"partition": "tcp", "efa": "required"}, "--efa: EFA is required, but the partition tcp has `efa: off`"),
        ({"servers": {"nodes": 2}}, "--servers: only for mxnet-ps and tensorflow-ps, got launcher torchrun"),
        ({"controller": "mpi"}, "--controller: only for horovodrun, got launcher torchrun"),
        ({"launcher": "mpirun", "nodes": 2, "min_nodes": 1}, "--min-nodes: only for horovodrun, got launcher mpirun"),
        (
            {"launcher": "horovodrun", "controller": "mpi", "nodes": 2, "min_nodes": 1},
            "--min-nodes: elastic jobs need Gloo, got controller mpi | remove controller",
        ),
        (
            {"launcher": "horovodrun", "nodes": 2, "min_nodes": 3},
            "--min-nodes: the job starts with 2 nodes, got 3 | raise nodes, or lower min_nodes",
        ),
        (
            {"container_image": "a"},
            "--container-image: the nodes of train cannot run containers: they have no pyxis | set software",
        ),
        ({"container_mounts": ("/a:/a",)}, "--container-mounts: needs a container_image"),
        ({"name": "a b"}, "--name: must be up to 64 letters"),
        ({"name": "-x"}, "--name: must be up to 64 letters"),
        ({"env": {"1A": "x"}}, "--env.1A: must be a variable's name"),
        ({"env": {"CONTAINER_IMAGE": "x"}}, "--env.CONTAINER_IMAGE: CONTAINER_IMAGE cannot be set"),
        (
            {"env": {"SLURM_EXPORT_ENV": "NONE"}},
            "--env.SLURM_EXPORT_ENV: SLURM_EXPORT_ENV cannot be set: srun would read it when it starts the ranks",
        ),
        ({"env": {"SLURM_JOB_ID": "5"}}, "--env.SLURM_JOB_ID: SLURM_JOB_ID cannot be set: srun would read it"),
        ({"env": {"SBATCH_PARTITION": "x"}}, "--env.SBATCH_PARTITION: SBATCH_PARTITION cannot be set"),
        ({"secrets": ("SRUN_DEBUG",)}, "--secrets[0]: SRUN_DEBUG cannot be set"),
        (
            {"env": {"OMPI_COMM_WORLD_RANK": "0"}},
            "--env.OMPI_COMM_WORLD_RANK: OMPI_COMM_WORLD_RANK cannot be set: the launcher sets it for each rank",
        ),
        (
            {"env": {"HOROVOD_RANK": "0"}},
            "--env.HOROVOD_RANK: HOROVOD_RANK cannot be set: the launcher sets it for each rank",
        ),
        (
            {"env": {"GROUP_RANK": "0"}},
            "--env.GROUP_RANK: GROUP_RANK cannot be set: the launcher sets it for each rank",
        ),
        ({"env": {"A": "x\0"}}, "--env.A: must not contain a NUL"),
        ({"env": {"A": True}}, "--env.A: must be text, got true"),
        ({"command": ()}, "command: must have at least one entry"),
        ({"command": "a && b"}, "command: needs a shell for '&&' | write a list: [bash, -c, '…']"),
        ({"sbatch_args": ("--a b",)}, "--sbatch-args[0]: must be one option of sbatch"),
        ({"sbatch_args": ("--a\n#SBATCH --b",)}, "--sbatch-args[0]: must be one option of sbatch"),
        ({"signal": "USR1 120", "time": "1:00:00"}, "--signal: must be USR1 or USR2, and @seconds before the limit"),
        ({"signal": "TERM@9", "time": "1:00:00"}, "--signal: must be USR1 or USR2, and @seconds before the limit"),
        ({"signal": "USR1@9"}, "--signal: is sent before the time limit, which this job lacks | add a time, such as"),
    ],
)
def test_refused(flags, message):
    got = problems(spec, **flags)
    assert len(got) == 1
    assert got[0].startswith(message)


@pytest.mark.parametrize("purchase", ["spot", "capacity-block, reservation_id: cr-0123456789abcdef0"])
def test_a_signal_needs_no_time_limit_where_ec2_announces_the_end_of_nodes(purchase: str) -> None:
    partition = (
        f"{{name: train, instance_types: [p5.48xlarge], max_nodes: 4, placement_group: none, purchase: {purchase}}}"
    )
    layout = expand(loads(f"name: Test\nregion: us-east-1\npartitions:\n  - {partition}\n"))
    assert load(layout, flags={"command": ("true",), "signal": "USR1@600"}).signal == "USR1@600"


def test_a_signal_needs_no_time_limit_where_the_budget_ends_nodes() -> None:
    partition = "partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]"
    budget = "budget: {monthly_usd: 5000, email: a@example.com, at_limit: stop-nodes}"
    layout = expand(loads(f"name: Test\nregion: us-east-1\n{partition}\n{budget}\n"))
    assert load(layout, flags={"command": ("true",), "signal": "USR1@60"}).signal == "USR1@60"


@pytest.mark.parametrize(("nodes", "fits"), [(2, True), (3, False)])
def test_a_job_whose_nodes_cost_more_than_the_partition_may_is_refused(nodes: int, fits: bool) -> None:
    """As the head node counts: with the most expensive type."""
    partition = "{name: train, instance_types: [g5.xlarge, g5.8xlarge], max_nodes: 4, max_usd_per_hour: 5}"
    layout = expand(
        loads(f"name: Test\nregion: us-east-1\nsoftware: {{containers: true}}\npartitions: [{partition}]\n")
    )
    flags = {"command": ("true",), "nodes": nodes, "gpus_per_node": 1}
    if fits:
        assert load(layout, flags=flags).nodes == nodes
        return
    assert problems(lambda **given: load(layout, flags=given), **flags) == [
        "--nodes: 3 nodes of train cost 7.34 USD an hour, and its max_usd_per_hour is 5: the job would never start"
        " | ask for at most 2, or raise max_usd_per_hour in cluster.yaml"
    ]


def test_every_problem_is_said_at_once():
    got = problems(spec, time="x", nodes=9, partition="train", launcher="nope")
    assert [problem.partition(":")[0] for problem in got] == ["--time", "--nodes", "--launcher"]


def test_a_command_that_is_missing():
    assert problems(load, LAYOUT, flags={"nodes": 1}) == [
        "command: this key is required: the command that every rank runs | "
        "put it after --, or write `command: [python, train.py]`"
    ]


def test_numbers_in_yaml_become_the_words_that_they_were(tmp_path):
    got = from_file(tmp_path, "command: [python, train.py, --epochs, 10, --lr, 0.1]\nenv: {N: 4}\ntime: 2:00:00\n")
    assert got.command == ("python", "train.py", "--epochs", "10", "--lr", "0.1")
    assert (got.env, got.time) == ({"N": "4"}, "02:00:00")


# fmt: off
NUMBERS = [
    "10", "1.10", "010", "0x10", "0o17", "0b11", "1_000", "1_0.5", "+1", "-0", "1e3", "1E+05", "1e-3", "6.02e23", ".5",
    "1.", "00.5", ".inf", "-.INF", ".nan", "123456789012345678901234567890", "2026-11-25", "1:30",
]
# fmt: on


def test_a_number_without_quotes_reaches_the_program_as_it_is_written(tmp_path):
    written = ", ".join(NUMBERS)
    values = "".join(f"  V{index}: {number}\n" for index, number in enumerate(NUMBERS))
    sweeps = f"sweep:\n  lr: [{written}]\n  one: 1e-3\n"
    got = from_file(tmp_path, f"command: [train, {written}]\nenv:\n{values}{sweeps}")
    assert got.command == ("train", *NUMBERS)
    assert list(got.env.values()) == NUMBERS
    assert got.sweep == {"lr": tuple(NUMBERS), "one": ("1e-3",)}


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_number_is_as_written_in_either_version_of_yaml(tmp_path, version):
    assert from_file(tmp_path, f"%YAML {version}\n---\ncommand: [a, 010, 0x1F, 1.10]\n").command[1:] == (
        "010", "0x1F", "1.10",
    )  # fmt: skip


def test_a_number_behind_an_alias_or_an_older_name_is_as_written(tmp_path):
    assert from_file(tmp_path, "command: [a, &n 1.10]\nenvs: {N: *n, M: !!float 1}\n").env == {"N": "1.10", "M": "1"}


def test_an_element_of_an_array_is_not_read_as_the_number_of_another_job(tmp_path):
    (said,) = problems(from_file, tmp_path, "command: [a]\nafter: 29_3\n")
    assert said.startswith("after[0]: the project of the task 29_3 is not known")


def test_a_number_from_python_is_pythons_text():
    assert spec(command=("a", 1.10, 10, 1e-5), env={"N": 0x10}).command == ("a", "1.1", "10", "1e-05")


def test_a_name_that_looks_like_a_number_is_quoted_as_it_is_written(tmp_path):
    (said,) = problems(from_file, tmp_path, "command: [a]\nname: 1.10\n")
    assert said == 'name: must be text, got 1.1 | in quotes it is text: "1.10"'


def test_what_is_no_number_and_no_text_is_refused(tmp_path):
    assert problems(from_file, tmp_path, "command: [a, ~, true]\nenv: {N: null}\n") == [
        "command[1]: must be text, got nothing | ",
        'command[2]: must be text, got true | in quotes it is text: "true"',
        "env.N: must be text, got nothing | ",
    ]


def test_a_command_in_one_line(tmp_path):
    assert from_file(tmp_path, "command: python 'my train.py' --x=1\n").command == ("python", "my train.py", "--x=1")


def test_flags_go_before_the_file(tmp_path):
    got = from_file(tmp_path, "command: [a]\nnodes: 3\nname: from-file\n", nodes=2)
    assert (got.nodes, got.name) == (2, "from-file")


def test_a_flag_with_a_name_leaves_the_others_of_the_file(tmp_path):
    text = "command: [a]\nenvs: {A: '1', B: '2'}\nmetrics: {loss: 'l (.*)'}\nchannels: {train: {source: /home/a}}\n"
    flags = {"env": {"A": "3"}, "metrics": {"accuracy": "a (.*)"}, "channels": {"val": {"source": "/home/b"}}}
    got = from_file(tmp_path, text, **flags)
    assert got.env == {"A": "3", "B": "2"}
    assert (list(got.metrics), list(got.channels)) == (["loss", "accuracy"], ["train", "val"])


def test_a_wrong_name_is_reported_where_it_was_written(tmp_path):
    with pytest.raises(JobSpecError) as caught:
        from_file(tmp_path, "command: [a]\nenv: {RANK: '1'}\n", env={"WORLD_SIZE": "1"})
    rendered = caught.value.render()
    assert "command line: error: --env.WORLD_SIZE: WORLD_SIZE cannot be set" in rendered
    assert f"{tmp_path}/job.yaml:2:13: error: env.RANK: RANK cannot be set" in rendered


def test_places_in_the_file(tmp_path):
    with pytest.raises(JobSpecError) as caught:
        from_file(tmp_path, "name: x\ncommand: [a]\nnodes: 9\nnodse: 2\nenv:\n  A: [1]\n")
    found = [(notice.line, notice.column, notice.key, notice.hint) for notice in caught.value.problems]
    assert found == [
        (3, 8, "nodes", "ask for fewer, or raise max_nodes in cluster.yaml"),
        (4, 1, "nodse", "did you mean 'nodes'?"),
        (6, 6, "env.A", None),
    ]
    assert f"{tmp_path}/job.yaml:4:1: error: nodse: unknown key" in caught.value.render()


def test_a_wrong_flag_is_not_reported_as_an_error_of_the_file(tmp_path):
    with pytest.raises(JobSpecError) as caught:
        from_file(tmp_path, "command: [a]\nnodes: 1\n", nodes=9)
    assert "command line: error: --nodes: the partition train has at most 4 nodes, got 9" in caught.value.render()


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("job_name: x", "name", "x"), ("num_nodes: 2", "nodes", 2), ("nproc_per_node: 2", "ntasks_per_node", 2),
        ("tasks_per_node: 2", "ntasks_per_node", 2), ("gpus: 2", "gpus_per_node", 2), ("gpu: 2", "gpus_per_node", 2),
        ("accelerators: A10G:2", "gpus_per_node", 2), ("timeout_min: 90", "time", "01:30:00"),
        ("queue: big", "partition", "big"), ("envs: {A: b}", "env", {"A": "b"}),
        ("env_vars: {A: b}", "env", {"A": "b"}),
        ("environment: {A: b}", "env", {"A": "b"}), ("type: srun", "launcher", "srun"),
        ("distribution: horovodrun", "launcher", "horovodrun"),
    ],
)  # fmt: skip
def test_names_from_other_tools(tmp_path, text, field, value):
    assert getattr(from_file(tmp_path, f"command: [a]\n{text}\n"), field) == value


def test_a_problem_is_shown_where_the_alias_stands(tmp_path):
    with pytest.raises(JobSpecError) as caught:
        from_file(tmp_path, "command: [a]\nnum_nodes: 9\n")
    assert [(notice.line, notice.key) for notice in caught.value.problems] == [(2, "num_nodes")]


def test_a_key_and_its_alias_together(tmp_path):
    with pytest.raises(JobSpecError) as caught:
        from_file(tmp_path, "command: [a]\nnodes: 1\nnum_nodes: 2\n")
    assert [notice.message for notice in caught.value.problems] == ["has the same meaning as nodes"]


def test_aliases_lead_to_keys():
    assert set(ALIASES.values()) <= set(JobSpec.model_fields)
    assert not set(ALIASES) & set(JobSpec.model_fields)


@pytest.mark.parametrize("text", ["[1, 2]", "just text", "a: [", ""])
def test_a_file_that_is_no_job(tmp_path, text):
    with pytest.raises(JobSpecError):
        from_file(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(JobSpecError, match="no such file\n  hint: `gpucluster init --template hello` writes"):
        load(LAYOUT, tmp_path / "none.yaml")


def test_a_file_in_another_encoding(tmp_path):
    (tmp_path / "job.yaml").write_bytes("command: [python]  # Zürich\n".encode("latin-1"))
    with pytest.raises(JobSpecError, match="job.yaml: error: is not UTF-8 text: byte 22 is 0xfc$"):
        load(LAYOUT, tmp_path / "job.yaml")


def test_one_node_and_one_gpu_are_not_plural():
    text = "name: T\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 1}]\n"
    flags = {"command": ("python", "train.py"), "nodes": 2, "gpus_per_node": 2}
    assert [each.partition(" | ")[0] for each in problems(load, expand(loads(text)), flags=flags)] == [
        "--nodes: the partition train has at most 1 node, got 2",
        "--gpus-per-node: a node of train (g5.xlarge) has 1 GPU, got 2",
    ]


def test_horovodrun_needs_a_cluster_with_horovod():
    text = "name: T\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
    without = expand(loads(text + "software: {frameworks: [torch]}\n"))
    flags = {"command": ("python", "train.py"), "launcher": "horovodrun"}
    assert problems(load, without, flags=flags) == [
        "--launcher: horovodrun needs horovod, which software.frameworks of the cluster T does not list"
        " | in cluster.yaml, write `software: {frameworks: [torch, horovod]}` and run `gpucluster up`,"
        " or choose another launcher"
    ]
    assert load(expand(loads(text)), flags=flags).launcher == "horovodrun"


def test_a_cluster_without_frameworks_needs_an_environment_of_the_jobs_own():
    text = "name: T\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
    bare = expand(loads(text + "software: {frameworks: []}\n"))
    flags = {"command": ("python", "train.py"), "launcher": "srun"}
    assert problems(load, bare, flags=flags) == [
        "--framework: no environment to run in: software.frameworks of the cluster T is empty"
        " | add a framework there in cluster.yaml, or give --python or --container-image"
    ]
    assert load(bare, flags=flags | {"python": "/fsx/venv"}).launcher == "srun"


@pytest.mark.parametrize(
    ("frameworks", "launcher", "takes"),
    [
        ("torch, horovod", "horovodrun", "horovod"),
        ("tensorflow, horovod", "horovodrun", "tensorflow"),
        ("tensorflow, horovod", "mpirun", "tensorflow"),
        ("tensorflow, horovod", "torchrun", "horovod"),
        ("torch, tensorflow, horovod", "horovodrun", "horovod"),
    ],
)
def test_horovod_is_that_of_the_framework_beside_it(frameworks, launcher, takes):
    """The environment `horovod` has torch, `tensorflow` has a Horovod of its own."""
    text = "name: T\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
    layout = expand(loads(f"{text}software: {{frameworks: [{frameworks}]}}\n"))
    assert load(layout, flags={"command": ("python", "a.py"), "launcher": launcher}).framework == takes


PS = expand(
    loads(
        """
name: Test
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]
parameter_servers: {instance_type: m4.16xlarge, max_nodes: 4}
software: {frameworks: [mxnet, tensorflow]}
"""
    )
)


@pytest.mark.parametrize(
    ("given", "servers", "own", "environments"),
    [
        (None, 3, 0, ("mxnet",)),
        ({"per_node": 2}, 6, 0, ("mxnet",)),
        ({"nodes": 2}, 2, 2, ("mxnet", "mxnet-cpu")),
        ({"ratio": 0.5}, 2, 2, ("mxnet", "mxnet-cpu")),
        ({"ratio": 1.0, "per_node": 4}, 12, 3, ("mxnet", "mxnet-cpu")),
    ],
)
def test_servers(given, servers, own, environments):
    flags = {"command": ("a",), "launcher": "mxnet-ps", "nodes": 3} | ({"servers": given} if given else {})
    request = SbatchRequest.from_spec(load(PS, flags=flags), PS, "/x")
    assert (request.num_servers, request.server_nodes, request.environments) == (servers, own, environments)
    assert request.spec.ranks_per_node == 1


def test_a_cluster_without_nodes_for_servers_has_them_beside_the_workers_and_says_so():
    cluster = expand(PS.config.model_copy(update={"parameter_servers": None}))
    flags = {"command": ("a",), "launcher": "tensorflow-ps", "nodes": 2, "servers": {"nodes": 3}}
    request = SbatchRequest.from_spec(load(cluster, flags=flags), cluster, "/x")
    assert (request.num_servers, request.server_nodes) == (3, 0)
    assert request.summary == "2 ranks on 2 nodes of train, 3 servers on the same nodes"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"servers": {"nodes": 5}}, "--servers: the partition ps has at most 4 nodes, got 5 | ask for fewer, or raise"),
        ({"servers": {"ratio": 2.0}, "nodes": 3}, "--servers: the partition ps has at most 4 nodes, got 6 |"),
        (
            {"servers": {"nodes": 3}, "nodes": 2, "partition": "ps"},
            "--servers: the partition ps has at most 4 nodes, got 3 beside 2 for the workers |",
        ),
        (
            {"servers": {"nodes": 1, "ratio": 1.0}},
            "--servers: nodes and ratio exclude each other | keep one",
        ),
        ({"servers": {"nodes": 0}}, "--servers.nodes: must be at least 1, got 0"),
        ({"servers": {"node": 1}}, "--servers.node: "),
        ({"env": {"PORT": "80"}}, "--env.PORT: every MXNet process of the job would listen on this port | use"),
        ({"framework": "tensorflow"}, "--framework: mxnet-ps starts ranks of mxnet, got tensorflow"),
    ],
)
def test_servers_refused(flags, message):
    got = problems(load, PS, flags={"command": ("a",), "launcher": "mxnet-ps"} | flags)
    assert len(got) == 1
    assert got[0].startswith(message)


def test_smddp_is_refused_where_it_cannot_be_imported():
    text = """
name: T
region: us-east-1
partitions:
  - {name: mixed, instance_types: [p4d.24xlarge, p4de.24xlarge], max_nodes: 2}
  - {name: p5, instance_types: [p5.48xlarge], max_nodes: 2}
software: {frameworks: [torch, smddp]}
"""
    layout = expand(loads(text))
    fitting = load(layout, flags={"command": ("a",), "launcher": "smddp"})
    assert (fitting.framework, fitting.ranks_per_node) == ("smddp", 8)
    with pytest.raises(JobSpecError) as refused:
        load(layout, flags={"command": ("a",), "launcher": "smddp", "partition": "p5"})
    said = str(refused.value)
    assert "smddp runs only on p3dn.24xlarge, p4d.24xlarge and p4de.24xlarge, but the partition p5 has p5.48xl" in said
    assert "use torchrun there, with NCCL" in said
