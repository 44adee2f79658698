"""Clusters that we did not build: what Slurm says there, and what becomes of a job for them."""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucluster import Cluster
from gpucluster.cli import main
from gpucluster.contexts import file, layout, probe, store
from gpucluster.contexts.probe import Kind
from gpucluster.errors import RemoteError, UsageError
from gpucluster.head.login import Address, LoginRemote
from gpucluster.layout import Site
from gpucluster.submission.prepare import prepare
from gpucluster_job.preflight import judge

# GRES, CPUs, memory and node counts as real clusters have printed them:
# 23.02.6: `sinfo -o '%P|%G|%D|%m…'` gave cpu|(null)|224|515303+ and normal|gpu:8(S:0-1)|224|1996800;
# several kinds of nodes: github.com/silx-kit/jupyterhub_moss/issues/97, gpu:MYGPU:2(S:0-1), gpu:MYGPU:2 and (null);
# 23.11.11: scontrol show node of an H100 node, Gres=gpu:H100:8(S:0-1), CPUTot=112, RealMemory=1900000;
# 25.x: scontrol show node, Gres=gpu:rtxproserver6000:8.
SINFO = {
    "23.02.6": ("normal*|224|224|1996800|gpu:8(S:0-1)\ncpu|224|224|515303+|(null)", [(8, ""), (0, "")]),
    "23.11.11": ("gpu*|1|112|1900000|gpu:H100:8(S:0-1)", [(8, "h100")]),
    "25.05.0": ("rtx*|4|192|1000000|gpu:rtxproserver6000:8", [(8, "rtxproserver6000")]),
    "22.05.8": ("debug*|1|2|1|(null)", [(0, "")]),
    "24.05.2": (
        "dev*|1|128|520000|gpu:MYGPU:2(S:0-1)\ndev*|3|128|520000|gpu:MYGPU:2\ndev*|9|40|310000|(null)",
        [(2, "mygpu")],
    ),
    "24.11.5": ("all*|2|64|1000|gpu:a100:4(S:0,2),gpu:v100:2(S:1),nvme:1", [(6, "")]),
}


def facts(lines: str, **others: str) -> str:
    values = {"home": "/home/me", "user": "me", "programs": "/usr/bin", "version": "slurm 23.11.4", "python": "3.9"}
    values |= {"home_type": "nfs", "accounting": "", "pyxis": "0"} | others
    return "".join(f"{name}\t{value}\n" for name, value in values.items()) + "".join(
        f"partition\t{line}\n" for line in lines.splitlines()
    )


@pytest.mark.parametrize("version", SINFO)
def test_gpus_are_read_from_any_gres(version: str) -> None:
    lines, expected = SINFO[version]
    found = probe.checked(probe.parse(facts(lines, version=f"slurm {version}")))
    assert [(each.largest.gpus, each.largest.gpu_model) for each in found.partitions] == expected
    assert (found.version, found.partitions[0].name) == (version, lines.partition("*")[0])


def test_a_partition_may_have_several_kinds_of_nodes() -> None:
    (found,) = probe.parse(facts(SINFO["24.05.2"][0])).partitions
    assert (found.nodes, found.largest) == (13, Kind(3, 128, 520000, 2, "mygpu"))


def test_the_default_partition_comes_first() -> None:
    found = probe.parse(facts("cpu|1|1|1|(null)\ngpu*|1|1|1|gpu:1")).partitions
    assert [each.name for each in found] == ["gpu", "cpu"]


@pytest.mark.parametrize(
    ("said", "accounting"),
    # Debian's packages say slurm-wlm. sacct.c (src/sacct/options.c): the text where AccountingStorageType is none.
    [("", True), ("Slurm accounting storage is disabled", False), ("SLURM accounting storage is disabled", False)],
)
def test_slurm_without_accounting(said: str, accounting: bool) -> None:
    found = probe.parse(facts("debug*|1|2|1|(null)", version="slurm-wlm 22.05.8", accounting=said))
    assert (found.version, found.accounting) == ("22.05.8", accounting)


@pytest.mark.parametrize(
    ("others", "problem"),
    [
        ({"programs": ""}, "there is no sbatch on the login node"),
        ({"python": "3.6"}, "jobs need Python 3.8 or newer as /usr/bin/python3, but the login node has Python 3.6"),
        ({"python": ""}, "but the login node has none"),
    ],
)
def test_what_jobs_need_is_missing(others: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        probe.checked(probe.parse(facts("debug*|1|2|1|(null)", **others)))
    assert problem in caught.value.message


def test_no_partition() -> None:
    with pytest.raises(UsageError, match="no partition"):
        probe.checked(probe.parse(facts("slurm_load_partitions: Unable to contact slurm controller")))


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> store.Context:
    """A context named lab, stored; the current folder has a program and no cluster file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "digits"
    work.mkdir()
    (work / "train.py").write_text("print()\n")
    monkeypatch.chdir(work)
    found = probe.parse(facts(SINFO["23.02.6"][0]))
    context = store.Context("lab", "ssh://me@login.example.org:2222", "/home/me/gpucluster", found)
    contexts = store.read()
    contexts.add(context)
    contexts.save()
    return context


def test_the_contexts_of_who_runs_the_tests_stay_away() -> None:
    assert file.path().parents[1].name.startswith("gpucluster-settings-"), "tests/conftest.py sets XDG_CONFIG_HOME"
    assert file.load() == {}


def test_contexts_are_stored(lab: store.Context) -> None:
    assert store.read() == store.Contexts({"lab": lab})


def test_a_file_that_is_none_of_ours_is_named(lab: store.Context, capsys: pytest.CaptureFixture[str]) -> None:
    file.path().write_text("{")
    assert main(["jobs"]) == 2
    assert "contexts.json cannot be read" in capsys.readouterr().err


SUBMIT = ["--context", "lab", "submit", "--dry-run", "--nodes", "2", "--name", "digits"]


def test_a_script_for_the_cluster(lab: store.Context, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SUBMIT, "--python", "/home/me/venv", "--", "python", "train.py"]) == 0
    lines = capsys.readouterr().out.splitlines()
    wanted = {"#SBATCH --partition=normal", "#SBATCH --nodes=2", "#SBATCH --gres=gpu:8", "#SBATCH --exclusive"}
    assert wanted <= set(lines)
    assert any(line.startswith("#SBATCH --output=/home/me/gpucluster/jobs/digits-") for line in lines)
    assert "export GPUCLUSTER_PYTHON=/home/me/venv" in lines
    assert not [line for line in lines if "/home/ubuntu" in line or "/home/gpucluster" in line]


def test_a_job_brings_its_python(lab: store.Context, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SUBMIT, "--", "python", "train.py"]) == 2
    said = capsys.readouterr().err
    assert "--python: the cluster lab has no environments of GpuCluster" in said
    assert "hint: name the folder of a venv or conda environment there with --python\n" in said


def test_no_containers_without_pyxis(lab: store.Context, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SUBMIT, "--container-image", "pytorch/pytorch", "--", "python", "train.py"]) == 2
    assert "the cluster lab cannot run containers: srun there knows no --container-image" in capsys.readouterr().err


def test_no_copies_where_nodes_have_no_scratch(lab: store.Context, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--python", "/home/me/venv", "--channel", "data=/data/images,mode=copy"]
    assert main([*SUBMIT, *more, "--", "python", "train.py"]) == 2
    said = capsys.readouterr().err
    assert "the nodes of the cluster lab have no scratch of GpuCluster to copy it to" in said
    assert "hint: use mode: mount, and a folder that all nodes share\n" in said


def test_a_broken_node_is_for_the_administrators(lab: store.Context) -> None:
    flags = {"command": ("python", "train.py"), "python": "/home/me/venv"}
    files = prepare(layout.of(lab), None, flags).request.files()
    expected = json.loads(files["preflight/expected.json"])
    found = judge.judge(expected, [{"node": "gpu1", "gpus": 7, "errors": {}}], ["gpu1"])
    message = "gpu1 has 7 of the 8 GPUs that the job asks for: tell the cluster's administrators"
    assert found.errors == [("gpu1", message)]


def test_verbs_that_read_need_no_cluster_file(
    lab: store.Context, remote: LoginRemote, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"squeue": "true", "scontrol": "echo 'Slurmctld(primary) at lab is UP'"}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin" / "sinfo").write_text("#!/bin/sh\necho 'gpu1|gpu*|idle|Unknown|none'\n")
    (tmp_path / "bin" / "sinfo").chmod(0o755)
    assert main(["--context", "lab", "jobs"]) == 0
    assert capsys.readouterr().err == "no jobs yet\n"
    assert main(["--context", "lab", "status"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "partition gpu: 1 idle"


@pytest.mark.parametrize(
    "words",
    ["up", "down", "plan", "start", "stop", "render folder"],
)
def test_verbs_that_need_our_own_cluster_refuse_a_context(
    lab: store.Context, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUCLUSTER_CONTEXT", "lab")
    assert main(words.split()) == 2
    assert "the context lab is a cluster that GpuCluster did not build: this verb needs" in capsys.readouterr().err


def test_tasks_and_outputs_lie_below_the_users_folder(lab: store.Context) -> None:
    flags = {"command": ("python", "train.py"), "name": "prepare", "project": "demo", "outputs": {"shards": None}}
    flags |= {"python": "/home/me/venv", "after": ("demo/raw",)}
    job = prepare(layout.of(lab), None, flags)
    chain = json.loads(job.request.files()["chain.json"])
    assert (chain["tasks"], chain["folder"]) == ("/home/me/gpucluster/tasks", "/home/me/gpucluster/tasks/demo/prepare")
    script = job.request.materialize()
    assert "export GPUCLUSTER_OUTPUT_SHARDS=/home/me/gpucluster/tasks/demo/prepare/outputs/shards\n" in script


def test_the_context_in_use(lab: store.Context, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "use", "lab"]) == 0
    assert main(["context", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:3] == ["*", "lab", "ssh://me@login.example.org:2222"]
    assert main(["submit", "--dry-run", "--python", "/home/me/venv", "--", "python", "train.py"]) == 0
    assert capsys.readouterr().err == "context: lab\n"
    assert main(["-c", "none.yaml", "submit", "--dry-run", "--", "python", "train.py"]) == 2
    assert "none.yaml: error: no such file" in capsys.readouterr().err
    assert main(["context", "use", "--none"]) == 0
    assert store.read().current == ""


def test_an_unknown_context(lab: store.Context, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--context", "lap", "jobs"]) == 2
    assert "there is no context 'lap'" in capsys.readouterr().err


def test_from_python(lab: store.Context) -> None:
    with Cluster.connect(context="lab") as cluster:
        assert (cluster.name, cluster.layout.names) == ("lab", ("normal", "cpu"))
        assert isinstance(cluster.remote, LoginRemote)
    with pytest.raises(UsageError, match="there is no context 'lap'"):
        Cluster.connect(context="lap")


@pytest.mark.parametrize("text", ["login.example.org", "ssh://", "ssh://a b", "ssh://-oProxyCommand=x", "ssh://h:x"])
def test_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="is not an address such as"):
        Address.parse(text)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client on this machine")
def test_ssh_reads_what_we_mean() -> None:
    remote = LoginRemote("lab", Address.parse("ssh://me@login.example.org:2222"), Site("/home/me/gpucluster", False))
    assert remote.alias.host("gpu1") == "gpu1"

    def effective(host: str) -> dict[str, str]:
        argv = ["ssh", "-G", "-F", str(remote.alias.config_file), host]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)

    wanted = {"user": "me", "port": "2222", "controlmaster": "auto", "hostname": "login.example.org"}
    assert wanted.items() <= effective("login.example.org").items()
    assert effective("gpu1")["proxyjump"] == "login.example.org"
    assert "proxyjump" not in effective("bastion")
    remote.close()


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client on this machine")
def test_the_users_own_remote_command_is_not_run(tmp_path: Path) -> None:
    """Otherwise ssh refuses: "Cannot execute command-line and remote command." """
    (tmp_path / "users").write_text("Host *\n  RemoteCommand tmux attach\n  Compression yes\n")
    text = Address.parse("ssh://login.example.org").config.replace("~/.ssh/config", str(tmp_path / "users"))
    (tmp_path / "ours").write_text(text)
    for host in ("login.example.org", "gpu1"):
        argv = ["ssh", "-G", "-F", str(tmp_path / "ours"), host]
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        assert "compression yes\n" in said and "tmux" not in said


@pytest.mark.parametrize(("length", "kept"), [(36, True), (37, False)])
def test_no_connection_is_kept_where_its_sockets_path_is_too_long(
    monkeypatch: pytest.MonkeyPatch, length: int, kept: bool
) -> None:
    """103 bytes at most (macOS: sun_path has 104). %C is 40, and ssh adds a dot and 16 while it makes the socket."""
    home = "/home/".ljust(length, "x")
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=home))
    found = re.search(r"ControlPath ~(\S+)%C", Address.parse("ssh://login").config)
    assert bool(found) == kept
    if found:
        assert len(home + found[1]) + 40 + 17 == 103


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoginRemote]:
    """Its ssh is a stand-in that runs the command on this machine, as sshd would, behind a talkative ~/.bashrc. The
    file `sent` has the command."""
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text('#!/bin/sh\nif [ -e "$0.broken" ]; then cat "$0.broken" >&2; exit 255; fi\n')
    with ssh.open("a") as file:
        file.write('echo "Welcome to the lab"\nfor last; do :; done\n')
        file.write(f'printf %s "$last" >{tmp_path}/sent\nexec ${{LOGIN_SHELL:-sh}} -c "$last"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "there").mkdir()
    site = Site(str(tmp_path / "there"), False)
    with closing(LoginRemote("lab", Address.parse("ssh://login"), site, "/opt/slurm/bin")) as remote:
        yield remote


def test_commands_and_files(remote: LoginRemote, tmp_path: Path) -> None:
    done = remote.run(
        ["sh", "-c", 'cat; echo "$1" "$PATH" >&2; exit 7', "sh", remote.real("/home/ubuntu/jobs")], input=b"in"
    )
    assert (done.exit_code, done.stdout) == (7, "in")
    assert done.stderr.startswith(f"{tmp_path}/there/jobs /opt/slurm/bin:")
    file = tmp_path / "there" / "file"
    remote.put(b"text", str(file), 0o600)
    assert (file.stat().st_mode & 0o777, remote.get(str(file))) == (0o600, b"text")
    with pytest.raises(RemoteError, match="cannot read"):
        remote.get(str(tmp_path / "there" / "none"))


@pytest.fixture(params=["", "ubuntu", "me"])
def account_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The user on the login node. Ubuntu's images, as ParallelCluster's, have ubuntu."""
    monkeypatch.setenv("GPUCLUSTER_USER", request.param)
    return request.param or "ubuntu"


def test_paths_in_the_users_own_home_are_not_changed(
    lab: store.Context, remote: LoginRemote, account_name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["--context", "lab", "ssh", "--", "echo", f"/home/{account_name}/data"]) == 0
    assert f"/home/{account_name}/data\n" in capfd.readouterr().out


def test_an_environment_in_the_users_own_home(
    lab: store.Context,
    remote: LoginRemote,
    account_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The refusal shows where the login node looked for it."""
    contexts = store.read()
    contexts.add(dataclasses.replace(lab, folder=str(tmp_path / "there")))
    contexts.save()
    folder = f"/home/{account_name}/no/such/venv"
    assert main(["--context", "lab", "submit", "--name", "digits", "--python", folder, "--", "python", "train.py"]) == 2
    assert f"the cluster has no program {folder}/bin/python\n" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["/home/{}/gpucluster", "/home/{}/jobs", "/home/{}", "/scratch/{}"])
def test_where_jobs_tasks_and_inputs_are(lab: store.Context, account_name: str, folder: str) -> None:
    """Whatever the name of the user and of the folder."""
    place, python = folder.format(account_name), f"/home/{account_name}/venv"
    Path("data").mkdir()
    Path("data", "one").write_text("1")
    flags = {"command": ("python", "train.py"), "name": "digits", "outputs": {"shards": None}, "python": python}
    flags |= {"channels": {"data": {"source": "./data"}}}
    job = prepare(layout.of(dataclasses.replace(lab, folder=place)), None, flags)
    script = job.request.materialize()
    assert f"#SBATCH --output={place}/jobs/digits-" in script
    assert f"export GPUCLUSTER_PYTHON={python}\n" in script
    assert f"export GPUCLUSTER_OUTPUT_SHARDS={place}/tasks/digits/digits/outputs/shards\n" in script
    (uploaded,) = job.inputs
    assert job.spec.channels["data"].source == uploaded.target == f"{place}/inputs/{uploaded.digest}"


def test_every_login_shell_takes_what_is_sent(
    remote: LoginRemote, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """csh and tcsh take no newline and no "!" between quotes; csh, fish and sh differ in backslashes too. To run this
    file's tests with such a shell: LOGIN_SHELL=tcsh."""
    words = ["printf", "%s,", "it's", "two\nlines", "!", "$HOME", "`id`", "\\", "é", ""]
    expected = "it's,two\nlines,!,$HOME,`id`,\\,é,,"

    def sent() -> str:
        return (tmp_path / "sent").read_text()

    harmless = re.compile(r"""sh -c '[^'!\n\\]+' sh [A-Za-z0-9+/]+=*""")
    assert remote.run(words).stdout == expected and harmless.fullmatch(sent())
    remote.run(["sh", "-c", probe.SCRIPT]).check("probe")
    assert harmless.fullmatch(sent())
    assert remote.attach(words) == 0
    assert expected in capfd.readouterr().out and harmless.fullmatch(sent())
    (tmp_path / "there" / "log").write_text("one\n")
    assert list(remote.follow(str(tmp_path / "there" / "log"), stop=lambda: True)) == ["one"] and harmless.fullmatch(
        sent()
    )


def test_large_input_tells_how_far_it_is(remote: LoginRemote) -> None:
    sent_bytes: list[int] = []
    assert remote.run(["wc", "-c"], input=bytes(600_000), sent=sent_bytes.append).stdout.strip() == "600000"
    assert sent_bytes == [262144, 524288, 600000]


def test_a_log_is_followed(remote: LoginRemote, tmp_path: Path) -> None:
    log = tmp_path / "there" / "log.txt"
    log.write_text("one\ntwo\nrest")
    assert list(remote.follow(str(log), stop=lambda: True)) == ["one", "two", "rest"]


def test_output_is_streamed(remote: LoginRemote) -> None:
    script = "echo out; cat; echo err >&2; exit $0"
    assert b"".join(remote.stream(["sh", "-c", script, "0"], what="x", stop=lambda: True)) == b"out\n"
    assert b"".join(remote.stream(["sh", "-c", script, "0"], what="x")) == b"out\n"
    with pytest.raises(RemoteError, match="^cannot read it: exit code 7: err$"):
        list(remote.stream(["sh", "-c", script, "7"], what="cannot read it"))


def test_ssh_fails(remote: LoginRemote, tmp_path: Path) -> None:
    (tmp_path / "bin" / "ssh.broken").write_text("ssh: Could not resolve hostname login\n")
    with pytest.raises(RemoteError, match="no SSH connection to login: ssh: Could not resolve") as caught:
        remote.run(["true"])
    assert caught.value.hint == "this must work first: ssh ssh://login"
    with pytest.raises(RemoteError, match="no SSH connection"):
        list(remote.follow("/home/ubuntu/log.txt", stop=lambda: True))
    with pytest.raises(RemoteError, match="no SSH connection to login: ssh: Could not resolve"):
        list(remote.stream(["true"], what="x"))


def test_nothing_is_done_as_root(remote: LoginRemote) -> None:
    with pytest.raises(UsageError, match="the context lab is a cluster that GpuCluster did not build: this needs root"):
        remote.run(["sudo", "-n", "/opt/gpucluster/bin/node-program", "jobs.environments", "list"])
