"""A cluster in a subnet whose only way to AWS, apt and PyPI is an HTTP proxy: tinyproxy, in an instance of the VPC."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from bed import wait_for
from proxied_network import ASKS, PRIVATE, URL, Network, Proxy, opened

SUBJECTS = [
    "bootstrap/gpucluster_node/aws_api.py",
    "bootstrap/gpucluster_node/imds.py",
    "bootstrap/lib/machine_environment.sh",
    "bootstrap/lib/wait_condition.sh",
    "bootstrap/programs/bin/node-program",
    "bootstrap/steps/system/proxy.sh",
    "bootstrap/user-data.sh.j2",
    "gpucluster/render/proxy.py",
    "gpucluster_job/around_proxy.py",
    "localcloud/api/public_endpoints.py",
    "localcloud/guests/public_names.py",
    "localcloud/machines/networks/firewall.py",
    "tests/nightly/moved_in/proxied_network.py",
]
COVERED_BY = (
    "test_proxy_step.py, test_around_proxy.py, test_local_cloud_public_names.py; the golden files of reference.yaml"
)
BUCKET = "behind-the-proxy"
CLUSTER = """
name: Behind
region: us-east-1
availability_zone: us-east-1a
network:
  vpc_id: {vpc}
  subnet_id: {private}
head_node: {{instance_type: m6i.large, volume_gib: 20}}
partitions:
  - {{name: cpu, instance_types: [m6i.xlarge], max_nodes: 2, idle_minutes: 0.3}}
s3_access:
  - {{uri: "s3://behind-the-proxy/data", access: read-write}}
"""
KEY = f"  proxy: {URL}\n"
PACKAGES = {"deb.debian.org:80", "pypi.org:443", "files.pythonhosted.org:443"}
PIP = "virtualenv -q /tmp/v && /tmp/v/bin/pip install -q --no-cache-dir --index-url https://pypi.org/simple six==1.17.0"
FETCH = {
    "curl": "curl -sS -m 9 $to",
    "wget": "wget -q -T 9 -t 1 -O- $to",
    "urllib": "python -c \"import urllib.request as u; print(u.urlopen('$to', timeout=9).read().decode())\"",
    "requests": "python -c \"import requests; print(requests.get('$to', timeout=9).text)\"",
}
CALLS = """\
import boto3, os
print("caller", boto3.client("sts", region_name="us-east-1").get_caller_identity()["Arn"])
store = boto3.client("s3", region_name="us-east-1")
store.put_object(Bucket="behind-the-proxy", Key="data/x", Body=b"stored")
print(store.get_object(Bucket="behind-the-proxy", Key="data/x")["Body"].read().decode())
"""
SERVES = f"""\
if [ $SLURM_PROCID = 0 ]; then
    mkdir -p /tmp/www && cd /tmp/www && for name in x {" ".join(FETCH)}; do echo from-the-peer >$name; done
    timeout 25 python -m http.server 8080 2>/dev/null
    exit 0
fi
"""
OTHERS = f"""\
{SERVES}
timeout 20 sh -c "until curl -s --noproxy '*' -o /dev/null http://$MASTER_ADDR:8080/x; do sleep 0.5; done"
export no_proxy={PRIVATE} NO_PROXY={PRIVATE}
{"".join(f"to=http://$MASTER_ADDR:8080/{name}; {command}{chr(10)}" for name, command in FETCH.items())}
"""
JOB = f"""\
env | grep -i _proxy= | sort
{SERVES}
for to in $MASTER_ADDR cpu-1 cpu-1.behind.internal; do
    to=http://$to:8080/x
    timeout 20 sh -c "until curl -s --noproxy '*' -o /dev/null $to; do sleep 0.5; done"
    {"".join(f'echo "$to {name} $({command})"; ' for name, command in FETCH.items())}
done
python -c '{CALLS}'
curl -sS -m 20 -o /dev/null -w 'pypi %{{http_code}}\\n' https://pypi.org/simple/six/
"""


class Behind:
    def __init__(self, network: Network, proxy: Proxy) -> None:
        self.bed, self.network, self.proxy = network.bed, network, proxy

    def write(self, more: str) -> None:
        names = {"vpc": self.network.vpc, "private": self.network.private}
        self.bed.config.write_text(CLUSTER.format(**names).replace("head_node", f"{more}head_node"))

    def job(self, script: str, nodes: int) -> list[str]:
        shape = ("--nodes", str(nodes), "--ntasks-per-node", "1", "--gpus-per-node", "0", "--launcher", "srun")
        done = self.bed.submit("--python", "/home/plain", *shape, "--follow", "--", "bash", "-c", script)
        assert done.exit_code == 0, done.told + "\n".join(done.log)
        return done.log

    def boot(self) -> None:
        self.bed.up()
        self.bed.ssh("sh", "-c", "sudo mkdir -p /home/plain/bin; sudo ln -sf /usr/bin/python3 /home/plain/bin/python")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with opened(tmp_path_factory.mktemp("behind")) as network:
        yield network


@pytest.fixture(scope="module")
def behind(network: Network) -> Iterator[Behind]:
    network.bed.client("s3").create_bucket(Bucket=BUCKET)
    cluster = Behind(network, Proxy(network))
    cluster.write(KEY)
    cluster.boot()
    yield cluster


def test_without_the_proxy_an_instance_reaches_neither_aws_nor_debian(network: Network) -> None:
    _, said = network.launch(network.private, ASKS, "asked-all")
    answers = dict(re.findall(r"(endpoint|direct-api|direct-apt|proxied-api): (.*)", said))
    assert answers["endpoint"].strip() == "none"
    assert "timed out" in answers["direct-api"] and "timed out" in answers["direct-apt"]
    assert answers["proxied-api"].split()[-1] == "000", "no proxy runs yet"


def test_up_refuses_the_subnet_without_the_key(network: Network, behind: Behind) -> None:
    behind.write("")
    try:
        done = behind.bed.gpucluster("up", "--local", "--port", str(behind.bed.port))
    finally:
        behind.write(KEY)
    assert done.returncode == 2
    assert f"{network.private} has no route to the internet" in done.stderr and "network.proxy" in done.stderr


def test_a_job_runs_with_the_proxy_and_reaches_its_nodes_without(behind: Behind) -> None:
    before = len(behind.proxy.requests())
    log = behind.job(JOB, 2)
    said = [line.partition("] ")[2] for line in log]
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        assert said.count(f"{name}={URL}") == 2
    fetched = [line.removesuffix(" from-the-peer") for line in said if line.endswith(" from-the-peer")]
    assert len(fetched) == 3 * len(FETCH), log
    assert any("assumed-role" in line for line in said if line.startswith("caller ")), log
    assert "stored" in said and "pypi 200" in said, log
    asked = set(behind.proxy.requests(before))
    # Its credentials come from 127.0.0.1, and those of the node from its metadata service.
    assert {"CONNECT pypi.org:443", "CONNECT sts.us-east-1.amazonaws.com:443"} <= asked, asked
    assert {each for each in asked if BUCKET in each}, asked


def test_pip_works(behind: Behind) -> None:
    said = behind.bed.ssh("bash", "-c", f"{PIP} && /tmp/v/bin/python -c 'import six; print(six.__version__)'")
    assert said.split()[-1] == "1.17.0"


def test_apt_works_with_sudo(behind: Behind) -> None:
    said = behind.bed.ssh(
        "sh", "-c", "sudo apt-get -qq update && apt-cache policy cowsay && sudo apt-get -qq install -y hello"
    )
    assert "deb.debian.org" in said
    assert behind.bed.ssh("hello").startswith("Hello")
    assert "GET deb.debian.org:80" in behind.proxy.requests()


def test_the_agent_ships_its_logs_through_the_proxy(behind: Behind) -> None:
    logs = behind.bed.client("logs")

    def boot_logs() -> list[str]:
        groups = logs.describe_log_groups(logGroupNamePrefix="/gpucluster/Behind/")["logGroups"]
        streams = (logs.describe_log_streams(logGroupName=each["logGroupName"])["logStreams"] for each in groups)
        return [each["logStreamName"] for found in streams for each in found]

    assert wait_for("a log of a node", boot_logs, 60)
    assert "CONNECT logs.us-east-1.amazonaws.com:443" in behind.proxy.requests()
    unit = "systemctl show amazon-cloudwatch-agent -p EnvironmentFiles"
    assert "/etc/environment" in behind.bed.ssh("sh", "-c", unit)


def test_power_launches_and_ends_nodes_through_the_proxy(behind: Behind) -> None:
    bed = behind.bed
    behind.job("hostname", 1)
    wait_for("the end of all nodes", lambda: not bed.instances("compute"), 90)
    calls = {each["action"] for each in bed.ask("calls?since=0") if each.get("role", "").startswith("Behind")}
    assert {"TerminateInstances", "ChangeResourceRecordSets"} <= calls, calls
    assert calls & {"RunInstances", "CreateFleet"}, calls
    assert "CONNECT route53.amazonaws.com:443" in behind.proxy.requests()


def test_other_exceptions_restart_the_head_node_and_reach_new_nodes(behind: Behind) -> None:
    bed = behind.bed
    head, booted = set(bed.instances("head")), bed.ssh("cat", "/proc/1/stat").split()[21]
    behind.write(f"{KEY}  no_proxy: [mirror.example.com]\n")
    planned = bed.gpucluster("plan")
    assert "head restarts  network.no_proxy: [] -> [mirror.example.com]" in planned.stdout
    behind.boot()
    assert set(bed.instances("head")) == head and bed.ssh("cat", "/proc/1/stat").split()[21] != booted
    assert 'Acquire::http::Proxy::mirror.example.com "DIRECT";' in bed.ssh(
        "cat", "/etc/apt/apt.conf.d/95gpucluster-proxy"
    )
    assert any(
        "no_proxy=" in line and ",mirror.example.com," in line for line in behind.job("env | grep -i no_proxy", 1)
    )
    behind.write(KEY)
    behind.boot()
    assert "mirror.example.com" not in bed.ssh("cat", "/etc/environment", "/etc/apt/apt.conf.d/95gpucluster-proxy")


def test_the_proxy_saw_names_of_aws_and_of_packages_only(behind: Behind) -> None:
    """Neither the metadata service nor a node, by name or by address. It comes last: the log is that of all tests."""
    ends = {each.partition(" ")[2] for each in behind.proxy.requests()}
    outside = {each for each in ends if not each.endswith(".amazonaws.com:443")}
    assert {"deb.debian.org:80", "pypi.org:443"} <= outside <= PACKAGES, outside
    for service in ("ssm", "s3", "ec2", "logs", "monitoring", "secretsmanager"):
        assert f"{service}.us-east-1.amazonaws.com:443" in ends
    assert "cloudformation-waitcondition-us-east-1.s3.amazonaws.com:443" in ends
    assert {each.rpartition(".")[0] for each in behind.proxy.clients()} == {PRIVATE.rpartition(".")[0]}
    assert len(behind.proxy.clients()) >= 2, "the head node and its nodes"


def test_some_programs_do_not_understand_a_network(behind: Behind) -> None:
    """The reason why a job has each of its nodes in the list."""
    before = len(behind.proxy.targets())
    behind.job(OTHERS, 2)
    proxied = {each.rpartition("/")[2] for each in behind.proxy.targets()[before:] if ":8080/" in each}
    assert proxied == {"wget", "urllib"}


def test_down_works(behind: Behind) -> None:
    done = behind.bed.gpucluster("down", "--yes", timeout_s=240)
    assert done.returncode == 0, done.stderr
