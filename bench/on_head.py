"""Runs in the container of `bench.head`, with its Python: starts Slurm, measures, and prints JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path

BIN = Path("/opt/gpucluster/bin")
BUNDLE = Path("/opt/gpucluster/bundle")
ETC = Path("/etc/slurm")
LOG = Path("/var/log/gpucluster/power.log")
REQUESTS, JOURNAL = Path("/run/gpucluster/requests"), Path("/run/gpucluster/launching")
PACKAGES = "/opt/packages-of-bench"
RESUME_FILE = Path("/run/slurmctld/resume-file.json")
PCLUSTER = Path("/etc/parallelcluster/slurm_plugin")


# --- Slurm ---


def start_slurm(zone: str, replaced: dict[str, str]) -> None:
    """As the boot steps of a head node do. replaced: program that Slurm calls -> a script in its place."""
    Path("/etc/hosts").write_text(f"127.0.0.1 localhost head head.{zone}\n")
    names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    Path("/etc/environment").write_text("".join(f"{name}={os.environ[name]}\n" for name in names))
    BIN.mkdir(parents=True)
    for path in (BUNDLE / "programs/bin").iterdir():
        (BIN / path.name).write_text(replaced.get(path.name) or path.read_text())
        (BIN / path.name).chmod(0o755)
    REQUESTS.mkdir(parents=True)
    shutil.chown(REQUESTS, "root", "slurm")
    REQUESTS.chmod(0o730)
    for name in ("slurm.conf", "gres.conf"):
        shutil.copy(BUNDLE / "slurm" / name, ETC / name)
    with (ETC / "slurm.conf").open("a") as conf:  # with the default, 10,000, a quiet machine refuses the last jobs
        conf.write("MaxJobCount=50000\n")
    shutil.copy(ETC / "image-cgroup.conf", ETC / "cgroup.conf")
    for folder in ("/home/gpucluster/slurm-state", "/var/log/slurm", "/run/slurmctld", "/var/log/gpucluster"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        shutil.chown(folder, "slurm", "slurm")
    LOG.touch()
    shutil.chown(LOG, "slurm", "slurm")
    start_munge()
    # As its unit does: it takes one of root's ports as the user slurm (low_port in lib/slurm_files.sh).
    privilege = ("--inh-caps=+net_bind_service", "--ambient-caps=+net_bind_service")
    subprocess.run(["setpriv", "--reuid=slurm", "--regid=slurm", "--init-groups", *privilege, "slurmctld"], check=True)
    wait(lambda: "is UP" in said("scontrol", "ping"), 60)


def start_munge() -> None:
    key = Path("/etc/munge/munge.key")
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    shutil.chown(key, "munge", "munge")
    Path("/run/munge").mkdir(exist_ok=True)
    shutil.chown("/run/munge", "munge", "munge")
    subprocess.run(["runuser", "-u", "munge", "--", "munged"], check=True)


def said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True).stdout


def wait(until, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not until():
        if time.monotonic() > end:
            log = Path("/var/log/slurm/slurmctld.log").read_text()[-2000:]
            raise RuntimeError(f"waited {seconds} s in vain; slurmctld's log ends:\n{log}")
        time.sleep(0.1)


# --- resume ---


def resume(settings: dict) -> None:
    """One job wants all nodes. slurmctld calls a program that only keeps SLURM_RESUME_FILE. Then each program launches
    the nodes in turn."""
    keep = f"#!/bin/sh\ncp $SLURM_RESUME_FILE {RESUME_FILE}.new && mv {RESUME_FILE}.new {RESUME_FILE}\n"
    start_slurm(settings["zone"], {"resume": keep, "nodes-joined": "#!/bin/sh\n"})
    print(said("sbatch", f"--nodes={settings['nodes']}", "--wrap=true"), file=sys.stderr)
    wait(RESUME_FILE.exists, 120)
    hostlist = json.loads(RESUME_FILE.read_text())["all_nodes_resume"]
    parallelcluster_files(settings)
    ways = {
        "alone": ["python3", "-c", ALONE.format(**settings)],
        "ours": [str(BIN / "power-request"), "resume", hostlist],
        "ParallelCluster": ["python3", "-m", "slurm_plugin.resume", hostlist],
    }
    found: dict[str, list] = {name: [] for name in ways}
    order = list(ways)
    for number in range(settings["runs"] + 1):
        order = order[1:] + order[:1]  # the emulator answers slower the more instances it has had
        for name in order:
            one = launched(name, ways[name], settings["nodes"])
            print(number, name, one, file=sys.stderr)
            if number:  # the first run of each warms caches and is not counted
                found[name].append(one)
    print(json.dumps(found))


ALONE = """
import boto3
ec2 = boto3.client("ec2", region_name="us-east-1")
ec2.run_instances(LaunchTemplate=dict(LaunchTemplateId="{template}", Version="1"), MinCount={nodes}, MaxCount={nodes})
"""


def parallelcluster_files(settings: dict) -> None:
    """What its cookbook writes. Its daemon, clustermgtd, writes the heartbeat once a minute."""
    partition, resource = settings["partition"].split("-dy-")
    PCLUSTER.mkdir(parents=True)
    Path("/var/log/parallelcluster").mkdir()
    fleet = {partition: {resource: {"Api": "run-instances", "InstanceType": "g5.12xlarge"}}}
    (PCLUSTER / "fleet-config.json").write_text(json.dumps(fleet))
    (PCLUSTER / "parallelcluster_slurm_resume.conf").write_text(f"""[slurm_resume]
cluster_name = scale
region = us-east-1
proxy = NONE
dynamodb_table = nodes
hosted_zone = {settings["hosted_zone"]}
dns_domain = {settings["zone"]}
use_private_hostname = false
head_node_private_ip = 10.0.0.4
head_node_hostname = head.{settings["zone"]}
clustermgtd_heartbeat_file_path = {PCLUSTER}/heartbeat
instance_id = i-0123456789abcdef0
scaling_strategy = all-or-nothing
""")


def launched(name: str, argv: list[str], nodes: int) -> dict:
    (PCLUSTER / "heartbeat").write_text(time.strftime("%Y-%m-%d %H:%M:%S.000000+00:00", time.gmtime()))
    asked = time.time()
    found = json.loads(said("python3", __file__, "one", json.dumps({"log": f"/tmp/{name}.log", "argv": argv})))
    calls = Counter(f"{each['service']}:{each['action']}" for each in asked_since(asked))
    check(name, found.pop("status"), nodes)
    return {**found, "calls": dict(calls)}


def one(settings: dict) -> None:
    """In a process of its own: a program's peak of memory includes what its parent had when it started it."""
    variables = {**os.environ, "PYTHONPATH": PACKAGES, "SLURM_RESUME_FILE": str(RESUME_FILE)}
    variables |= {"SLURM_BINARIES_DIR": "/usr/bin"}
    if settings["argv"][0] == str(BIN / "power-request"):
        print(json.dumps(by_daemon(settings["argv"], variables)))
        return
    output = [
        (os.POSIX_SPAWN_OPEN, stream, settings["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream in (1, 2)
    ]
    argv, began = settings["argv"], time.monotonic()
    _, status, usage = os.wait4(os.posix_spawnp(argv[0], argv, variables, file_actions=output), 0)
    found = {"status": status, "wall_s": time.monotonic() - began, "cpu_s": usage.ru_utime + usage.ru_stime}
    print(json.dumps({**found, "mib": usage.ru_maxrss / 1024}))


def by_daemon(argv: list[str], variables: dict[str, str]) -> dict:
    """A new one for each launch, without records of earlier ones: it would take the nodes of others' instances out of
    service. It has started before the request, and its looks at all nodes meanwhile count."""
    shutil.rmtree(JOURNAL.with_name("launched"), ignore_errors=True)
    program, word = daemon("power.daemon", variables), "gpucluster_node.power.daemon"
    time.sleep(5)
    before, began = cpu_s(word), time.monotonic()
    status = subprocess.run(argv, env=variables).returncode
    wait(lambda: not any(REQUESTS.iterdir()) and not any(JOURNAL.glob("*.json")), 300)
    found = {"status": status, "wall_s": time.monotonic() - began, "cpu_s": cpu_s(word) - before}
    peak = Path(f"/proc/{program.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
    program.kill()
    program.wait()
    return {**found, "mib": int(peak) / 1024}


def asked_since(epoch_s: float) -> list[dict]:
    with urllib.request.urlopen(f"{os.environ['AWS_ENDPOINT_URL']}/_localcloud/calls?since={epoch_s}") as answer:
        return json.load(answer)


def check(name: str, status: int, nodes: int) -> None:
    """Each node must have the address of an instance. Then terminates the instances."""
    live = instances()
    shown = said("scontrol", "show", "nodes", "--oneliner")
    addresses = {line.partition(" NodeAddr=")[2].split()[0] for line in shown.splitlines() if " NodeAddr=" in line}
    complete = name == "alone" or addresses == {each["PrivateIpAddress"] for each in live}
    if status or len(live) != nodes or not complete:
        log = (LOG if name == "ours" else Path(f"/tmp/{name}.log")).read_text()[-3000:]
        raise RuntimeError(f"{name}: status {status}, {len(live)} instances, {complete=}: {log}")
    terminate(live)


def instances() -> list[dict]:
    wanted = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    pages = client().get_paginator("describe_instances").paginate(Filters=wanted)
    return [each for page in pages for group in page["Reservations"] for each in group["Instances"]]


def terminate(live: list[dict]) -> None:
    client().terminate_instances(InstanceIds=[each["InstanceId"] for each in live])


def client():
    import boto3

    return boto3.client("ec2", region_name="us-east-1")


def daemon(module: str, variables: dict[str, str] | None = None) -> subprocess.Popen:
    with LOG.open("a") as log:
        return subprocess.Popen([BIN / "node-program", module], stdout=log, stderr=log, env=variables)


def processes(word: str) -> list[Path]:
    """Those with the word in their command; not this one, and no threads."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if int(path.name) != os.getpid() and any(word.encode() in each for each in words):
                found.append(path)
    return found


def cpu_s(word: str) -> float:
    """CPU seconds of the processes and of their children that have ended."""
    found = 0.0
    for path in processes(word):
        with suppress(OSError):
            words = (path / "stat").read_text().rpartition(")")[2].split()
            found += sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    return found


if __name__ == "__main__":
    {"resume": resume, "one": one}[sys.argv[1]](json.loads(sys.argv[2]))
