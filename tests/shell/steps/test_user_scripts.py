"""The user's own scripts on a node: from the bundle's list to the log and the report of a failure."""

from __future__ import annotations

import json
import re
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from signed_aws import SignedAws
from test_steps import REPORT, Machine, source_of

from gpucluster import config, render

CLUSTER = {"name": "Mine", "region": "eu-west-1"}
TRAIN = {"name": "train", "instance_types": ["g5.xlarge"], "max_nodes": 2}
PLACES = ("/var/lib/gpucluster", "/var/log/gpucluster")
READY = """
{report}
CLUSTER=Mine ROLE={role} STEP_LIMIT_S=60
imds() {{ echo {instance}; }}
"""


class Node:
    """A node of the partition train, or the head node, whose bundle comes from a cluster file."""

    def __init__(self, root: Path, role: str = "compute") -> None:
        self.folder, self.role = root, role
        self.machine = Machine(root)
        self.machine.command("hostname", "echo train-2")
        self.instance, self.more = "i-1", ""
        for name in ("user_scripts", "user_script", "aws_api"):
            self.machine.step(name, self.machine.below(source_of(name).read_text(), *PLACES))

    def script(self, name: str, body: str, **keys: object) -> dict[str, object]:
        (self.folder / name).write_text("#!/bin/bash\n" + body)
        return {"source": f"./{name}", **keys}

    def has(self, *scripts: dict[str, object]) -> None:
        own = {"scripts": scripts}
        nodes = {"head_node": own, "partitions": [TRAIN]} if self.role == "head" else {"partitions": [TRAIN | own]}
        loaded = config.loads(json.dumps(CLUSTER | nodes), str(self.folder / "cluster.yaml"))
        for path, text in render.bundle(loaded).items():
            if path.startswith(("scripts/", "gpucluster_node/")):
                file = self.folder / "bundle" / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text.encode())

    def boots(self, *whens: str) -> subprocess.CompletedProcess[str]:
        ready = READY.format(report=REPORT, role=self.role, instance=self.instance)
        runs = "\n".join(f"user_scripts {when}" for when in whens or ("before", "after"))
        return self.machine.run(f"{ready}\n{self.more}\n{runs}", "runner", "files", "aws_api", "user_scripts")

    def log(self, name: str) -> str:
        return (self.folder / f"var/log/gpucluster/scripts/{name}.log").read_text()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def reported(done: subprocess.CompletedProcess[str]) -> str:
    return next(line for line in done.stdout.splitlines() if line.startswith("REPORTED ")).removeprefix("REPORTED ")


def test_scripts_run_in_order_with_their_arguments_and_the_nodes_names(node: Node) -> None:
    says = 'echo "$GPUCLUSTER_CLUSTER $GPUCLUSTER_NODE_TYPE $GPUCLUSTER_NODE $GPUCLUSTER_PARTITION: $*" $#\n'
    node.has(
        node.script("late.sh", "echo late\n"),
        node.script("early.sh", says, when="before", args=["a b", "$HOME", "'\"\n"]),
    )
    done = node.boots()
    assert done.returncode == 0, done.stdout + done.stderr
    assert node.log("early.sh") == "Mine compute train-2 train: a b $HOME '\"\n 3\n"
    assert done.stdout.index("Mine compute train-2") < done.stdout.index("late"), "the boot's log has their output"
    assert re.search(r"step=scripts/early.sh status=ok seconds=\d", done.stdout)


def test_only_root_reads_scripts_and_their_arguments(node: Node) -> None:
    node.has(node.script("a.sh", "echo $1", args=["token"]))
    node.boots()
    node.has(node.script("a.sh", "echo $1", args=["another"]))
    folder = node.folder / "bundle/scripts"
    folder.chmod(0o755)
    node.boots()
    assert "another" in (folder / "partitions/train").read_text()
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.rglob("*"))} == {0}


def test_a_script_runs_once_on_an_instance(node: Node) -> None:
    node.has(node.script("count.sh", f"echo x >>{node.folder}/count\n"))
    assert [node.boots().returncode for _ in range(2)] == [0, 0]
    assert (node.folder / "count").read_text() == "x\n"
    node.instance = "i-2"  # its image was made of the first one
    assert node.boots().returncode == 0
    assert (node.folder / "count").read_text() == "x\nx\n"


def test_a_running_head_node_runs_no_new_script(tmp_path: Path) -> None:
    node = Node(tmp_path, "head")
    node.has()
    assert node.boots().returncode == 0
    node.has(node.script("new.sh", f"touch {tmp_path}/ran\n"))
    assert node.boots().returncode == 0 and not (tmp_path / "ran").exists()
    node.instance = "i-2"
    assert node.boots().returncode == 0 and (tmp_path / "ran").exists()


def test_only_the_failed_script_runs_again(node: Node) -> None:
    node.has(
        node.script("good.sh", f"echo x >>{node.folder}/count\n"),
        node.script("bad.sh", f"test -e {node.folder}/fixed\n"),
    )
    assert node.boots().returncode == 1
    (node.folder / "fixed").touch()
    assert node.boots().returncode == 0
    assert (node.folder / "count").read_text() == "x\n"


FAILURES = {
    "its status": ("echo 'no such package: x' >&2; echo; exit 3\n", "it exited with status 3: no such package: x"),
    "nothing said": ("false\n", "it exited with status 1: it printed nothing"),
    "no interpreter": ("", "it exited with status 127: env: .*x.sh.*: No such file.*"),
}


@pytest.mark.parametrize(("body", "why"), FAILURES.values(), ids=FAILURES)
def test_a_failed_script_ends_the_boot_and_is_named(node: Node, body: str, why: str) -> None:
    script = node.script("x.sh", body)
    if not body:
        (node.folder / "x.sh").write_text("#!/no/such/shell\n")
    node.has(script)
    done = node.boots()
    assert done.returncode == 1
    assert re.fullmatch(rf"step=scripts/x.sh: {why} \(log \S*/scripts/x.sh.log\)", reported(done)), done.stdout
    assert "step=scripts/x.sh status=failed" in done.stdout


def test_a_script_that_hangs_is_ended_with_its_children(node: Node) -> None:
    node.has(node.script("x.sh", "echo waits\nsleep 86397 & wait\n", time_limit_minutes=1))
    list_ = node.folder / "bundle/scripts/partitions/train"
    list_.write_text(list_.read_text().replace(" 60 ", " 1 "))
    done = node.boots()
    assert reported(done).startswith("step=scripts/x.sh: it did not end within 0 minutes, and was ended: waits")
    assert subprocess.run(["pgrep", "-f", "[s]leep.86397"], check=False).returncode == 1


def test_a_script_that_leaves_a_daemon_does_not_hold_the_boot(node: Node) -> None:
    node.has(node.script("x.sh", "sleep 20 &\n"))
    assert "status=ok" in node.boots().stdout


def test_two_scripts_of_one_name_have_a_log_each(node: Node) -> None:
    (node.folder / "more").mkdir()
    node.has(node.script("x.sh", "echo one\n"), node.script("more/x.sh", "echo two\n"))
    assert node.boots().returncode == 0
    assert (node.log("1-x.sh"), node.log("2-x.sh")) == ("one\n", "two\n")


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


GOOD = "#!/bin/sh\necho from S3\n"
STORED = {
    "as pinned": (GOOD, digest(GOOD), None),
    "not pinned": (GOOD, None, None),
    "changed": (
        "#!/bin/sh\nrm -rf /\n",
        digest(GOOD),
        f"it has changed: its SHA-256 is {digest('#!/bin/sh' + chr(10) + 'rm -rf /' + chr(10))[:40]}",
    ),
    "no interpreter": ("echo\n", None, "it does not begin with #!, so the kernel cannot run it"),
    "of Windows": ("#!/bin/sh\r\necho\r\n", None, "it has the line ends of Windows (CRLF): save it with those of Unix"),
    "too large": ("#!/bin/sh\n" + "#" * (1 << 20), None, "it has 1048586 bytes, and a script may have 1048576"),
    "missing": (None, None, "AWS call object s3://my.bucket/my scripts/x.sh failed: NoSuchKey"),
}


@pytest.mark.parametrize(("text", "pin", "why"), STORED.values(), ids=STORED)
def test_a_script_in_s3_is_fetched_and_judged(
    node: Node, aws: SignedAws, text: str | None, pin: str | None, why: str | None
) -> None:
    if text is not None:
        aws.objects["/my.bucket/my%20scripts/x.sh"] = text.encode()
    node.has({"source": "s3://my.bucket/my scripts/x.sh", "sha256": pin})
    node.more = "\n".join(f"export {name}={value}" for name, value in aws.environment.items())
    done = node.boots()
    if why is None:
        assert node.log("x.sh") == "from S3\n", done.stdout + done.stderr
    else:
        assert reported(done).startswith(f"step=scripts/x.sh: {why}"), done.stdout + done.stderr


def test_a_script_of_a_web_server_comes_over_tls_alone(node: Node) -> None:
    """The last argument but one is the file."""
    node.machine.command("curl", 'printf "#!/bin/sh\\necho from the web\\n" >"${@: -2:1}"')
    node.has({"source": "https://example.com/x.sh?v=1"})
    assert node.boots().returncode == 0
    assert node.log("x.sh") == "from the web\n"
    (call,) = [each for each in node.machine.calls() if each.startswith("curl")]
    assert "--proto =https --proto-redir =https" in call and call.endswith("https://example.com/x.sh?v=1")
