"""User data and the first steps on a machine that has no `aws`: their own signatures, checked against botocore's."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import boto3
import pytest
from gpucluster_node import aws_api
from signed_aws import EC2_ERROR, METADATA, SignedAws
from test_steps import BOOTSTRAP, Machine, source_of

from gpucluster import config, render

ROOT = Path(__file__).resolve().parents[3]
CLUSTER = config.load(ROOT / "cluster.yaml")
OBJECT = "/cdk-assets-1/0f.zip"
# All programs that user data and these steps start. `aws` is not among them.
COMMANDS = ("awk", "bash", "cat", "curl", "dirname", "ln", "mkdir", "mktemp", "python3", "rm", "sed", "sleep", "tee")
ANY_KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
THROTTLED = (400, '{"__type":"ThrottlingException","message":"Rate exceeded"}')


@pytest.fixture
def path(tmp_path: Path) -> str:
    folder = tmp_path / "commands"
    folder.mkdir()
    for name in COMMANDS:
        (folder / name).symlink_to(sys.executable if name == "python3" else str(shutil.which(name)))
    # No test waits for the random delays.
    (folder / "sitecustomize.py").write_text("import time\ntime.sleep = lambda s: None\n")
    return str(folder)


def boot(aws: SignedAws, path: str, root: Path, role: render.Role) -> subprocess.CompletedProcess[str]:
    text = render.user_data(CLUSTER, role).replace("http://169.254.169.254", aws.url)
    for folder in ("/var/log/gpucluster", "/opt/gpucluster"):
        text = text.replace(folder, f"{root}{folder}")
    (root / "opt/gpucluster").mkdir(parents=True)
    variables = {"PATH": path, "PYTHONPATH": path, "AWS_ENDPOINT_URL": aws.url}
    return subprocess.run(["bash"], input=text, env=variables, capture_output=True, text=True, timeout=30)


def parameter(role: str) -> str:
    return f"{CLUSTER.ssm_path}{'nodes/' if role == 'compute' else ''}bundle"


def publish(aws: SignedAws, role: str) -> dict[str, str]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{role}.sh", f'echo "{role} runs in $(dirname "$0")"\n')
    aws.objects[OBJECT] = packed.getvalue()
    bundle = {"version": "v1", "s3_uri": f"s3:/{OBJECT}", "wait_handle_url": f"{aws.url}/wait-handle?Signature=x"}
    if role == "compute":
        del bundle["wait_handle_url"]
    aws.parameters[parameter(role)] = json.dumps(bundle)
    return bundle


@pytest.mark.parametrize("role", ["head", "compute", "image"])
def test_the_bundle_is_fetched_without_the_aws_cli(
    aws: SignedAws, path: str, tmp_path: Path, role: render.Role
) -> None:
    bundle = publish(aws, role)
    done = boot(aws, path, tmp_path, role)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "opt/gpucluster"
    assert f"{role} runs in {folder}/bundle" in (tmp_path / "var/log/gpucluster/boot.log").read_text()
    assert os.readlink(folder / "bundle") == f"{folder}/bundle-v1"
    assert json.loads((folder / "bundle/bundle.json").read_text()) == bundle
    assert aws.asked == [f"AmazonSSM.GetParameter {parameter(role)}", f"GetObject {OBJECT}"]


def test_user_data_outlasts_throttling(aws: SignedAws, path: str, tmp_path: Path) -> None:
    publish(aws, "compute")
    aws.refusals = [THROTTLED] * 5
    done = boot(aws, path, tmp_path, "compute")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(aws.asked) == 7


def test_a_node_without_a_bundle_tags_itself_with_the_reason(aws: SignedAws, path: str, tmp_path: Path) -> None:
    done = boot(aws, path, tmp_path, "compute")
    assert done.returncode != 0
    reason = aws.tags["gpucluster:boot-failure"]
    assert reason.startswith("step=user-data: no bundle: ")
    assert "ParameterNotFound" in reason
    assert reason in done.stdout


def test_a_head_without_its_bundle_tells_cloudformation(aws: SignedAws, path: str, tmp_path: Path) -> None:
    publish(aws, "head")
    aws.objects.clear()
    done = boot(aws, path, tmp_path, "head")
    assert done.returncode != 0
    (signal,) = aws.signals
    assert signal["Status"] == "FAILURE"
    assert OBJECT in signal["Reason"] and "NoSuchKey" in signal["Reason"]


@pytest.fixture
def machine(tmp_path: Path, aws: SignedAws, path: str) -> Machine:
    found = Machine(tmp_path)
    (tmp_path / "bundle/gpucluster_node").symlink_to(BOOTSTRAP / "gpucluster_node")
    (found.bin / "python3").symlink_to(sys.executable)
    found.step("imds", source_of("imds").read_text().replace("http://169.254.169.254", aws.url))
    exported = "\n".join(f"export {name}={value}" for name, value in {**aws.environment, "PATH": path}.items())
    found.step("environment_of_the_test", exported)
    return found


def run(machine: Machine, script: str, *sources: str) -> subprocess.CompletedProcess[str]:
    return machine.run(script, "environment_of_the_test", "runner", "imds", "aws_api", "parameters", *sources)


def test_a_step_reads_a_parameters_value_and_a_secret(machine: Machine, aws: SignedAws) -> None:
    aws.secrets["arn:munge"] = "the munge key's bytes"
    aws.parameters["/x/head"] = json.dumps({"munge_secret_arn": "arn:munge", "port": 6817})
    done = run(machine, 'SSM_PATH=/x/\nparameter head port\naws_api secret "$(parameter head munge_secret_arn)"')
    assert done.stdout.splitlines() == ["6817", "the munge key's bytes"], done.stderr


def test_a_step_reads_one_value_of_a_secret(machine: Machine, aws: SignedAws) -> None:
    aws.secrets["arn:db"] = json.dumps({"username": "slurm", "password": "p&ss<w>ord"})
    assert run(machine, "aws_api secret arn:db password").stdout == "p&ss<w>ord\n"


def test_a_host_key_is_published_once(machine: Machine, aws: SignedAws, tmp_path: Path) -> None:
    aws.parameters["/x/host-key"] = "pending"
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA+b/c= root@head\n")
    text = source_of("host_key").read_text()
    machine.step("host_key", text.replace("/etc/ssh/ssh_host_ed25519_key.pub", f"{tmp_path}/key.pub"))
    done = run(machine, "SSM_PATH=/x/\nstep_host_key\nstep_host_key", "host_key")
    assert done.returncode == 0, done.stderr
    assert aws.parameters["/x/host-key"] == "ssh-ed25519 AAAA+b/c="
    assert [each.split()[0] for each in aws.asked].count("AmazonSSM.PutParameter") == 1


def test_a_nodes_name_is_its_tag(machine: Machine, aws: SignedAws) -> None:
    aws.tags["gpucluster:node"] = "train-1"
    assert run(machine, "node_from_tag", "name").stdout == "train-1\n"
    assert "Filter.1.Value.1=" + METADATA["instance-id"] in aws.asked[0]


@pytest.mark.parametrize(("value", "name"), [("0:train-[1-2,7-9]", "train-8"), ("0:train-[1-3]", ""), ("?:[", "")])
def test_a_node_takes_its_name_from_a_list_by_its_launch_index(
    machine: Machine, aws: SignedAws, value: str, name: str
) -> None:
    aws.tags["gpucluster:node"] = value
    done = run(machine, "aws_api node")
    assert (done.stdout, done.returncode) == (f"{name}\n", 0), done.stderr


def test_a_node_waits_for_a_tag_that_is_set_late(machine: Machine, aws: SignedAws) -> None:
    assert run(machine, "aws_api node").stdout == "\n"
    done = run(machine, 'aws_api() { :; }\nsleep() { echo "$1" >>"$ROOT/slept"; }\nnode_from_tag', "name")
    assert done.returncode != 0
    assert "no tag gpucluster:node names a node for i-0123456789abcdef0 after about 300 s: see" in done.stderr
    slept = [int(each) for each in (machine.root / "slept").read_text().split()]
    assert len(slept) == 20
    assert len(set(slept[15:19])) > 1, "a thousand nodes must not ask at one moment"


def test_a_failed_query_for_the_tag_is_repeated(machine: Machine, aws: SignedAws) -> None:
    """In a step, a failed call ends the boot."""
    aws.tags["gpucluster:node"] = "train-1"
    aws.refusals = [(403, EC2_ERROR.format(code="UnauthorizedOperation", message="not yet"))] * 2
    done = run(machine, "set -E\ntrap 'echo ended' ERR\nsleep() { :; }\nname=$(node_from_tag)\necho $name", "name")
    assert done.stdout == "train-1\n", done.stderr
    assert "UnauthorizedOperation: not yet" in done.stderr


@pytest.mark.parametrize(
    "reason", ['step=x line=3: it\'s "broken" & <done> 100 % (log /var/log/x)', "ü" * 300], ids=["quotes", "long"]
)
def test_a_failure_becomes_the_instances_tag(machine: Machine, aws: SignedAws, reason: str) -> None:
    done = run(machine, f"tag_failure {json.dumps(reason, ensure_ascii=False)}")
    assert done.returncode == 0, done.stderr
    assert aws.tags["gpucluster:boot-failure"] == reason[:250]


@pytest.mark.parametrize(
    "refusal",
    [
        THROTTLED,
        (503, EC2_ERROR.format(code="RequestLimitExceeded", message="Request limit exceeded.")),
        (502, "<html>"),
    ],
)
def test_a_step_retries_temporary_errors(
    aws: SignedAws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refusal: tuple[int, str]
) -> None:
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    waits: list[float] = []
    monkeypatch.setattr(aws_api.imds, "URL", f"{aws.url}/latest")
    monkeypatch.setattr(aws_api.time, "sleep", waits.append)
    aws.parameters["/x/head"] = "{}"
    aws.refusals = [refusal] * (aws_api.TRIES - 1)
    assert aws_api.main(["parameter", "/x/head"]) == 0
    assert capsys.readouterr().out == "{}\n"
    assert len(aws.asked) == aws_api.TRIES
    assert all(wait <= min(aws_api.LONGEST_WAIT_S, 2**number) for number, wait in enumerate(waits, 1))
    assert len(set(waits)) == aws_api.TRIES - 1  # each node waits for a different time
    aws.refusals = [refusal] * aws_api.TRIES
    assert aws_api.main(["parameter", "/x/head"]) == 1


def test_a_step_retries_after_truncated_answers(
    aws: SignedAws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws_api.imds, "URL", f"{aws.url}/latest")
    monkeypatch.setattr(aws_api.time, "sleep", lambda seconds: None)
    aws.parameters["/x/head"] = "{}"
    aws.broken_off = 2
    assert aws_api.main(["parameter", "/x/head"]) == 0
    aws.broken_off = 1000
    assert aws_api.main(["parameter", "/x/head"]) == 1
    assert "AWS call parameter /x/head failed: IncompleteRead" in capsys.readouterr().err


def test_a_permanent_error_is_reported_with_awss_message(machine: Machine, aws: SignedAws) -> None:
    denied = "User: arn:aws:sts::1:assumed-role/Node/i-1 is not authorized to perform: ec2:DescribeTags"
    aws.refusals = [(403, EC2_ERROR.format(code="UnauthorizedOperation", message=denied))]
    done = run(machine, "aws_api node")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"AWS call node failed: UnauthorizedOperation: {denied}"
    done = run(machine, "aws_api parameter /x/none")
    assert done.stderr.splitlines()[-1] == "AWS call parameter /x/none failed: ParameterNotFound"


@pytest.mark.parametrize(
    ("region", "domain", "host"),
    [
        ("us-gov-west-1", "amazonaws.com", "secretsmanager.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "amazonaws.com.cn", "secretsmanager.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_an_endpoint_is_that_of_its_partition(
    aws: SignedAws, monkeypatch: pytest.MonkeyPatch, region: str, domain: str, host: str
) -> None:
    monkeypatch.setattr(aws_api.imds, "URL", f"{aws.url}/latest")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setitem(METADATA, "services/domain", domain)
    assert aws_api.endpoint("secretsmanager", region) == f"https://{host}"
    assert boto3.client("secretsmanager", region_name=region, **ANY_KEYS).meta.endpoint_url == f"https://{host}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETSMANAGER", "http://here:1/")
    assert aws_api.endpoint("secretsmanager", region) == "http://here:1"
