"""Keys that somebody who moves in sets, changed and changed back by `up` on booted nodes. In order: each test continues
from the cluster that the one before it left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from bed import Bed, wait_for
from beds import opened
from test_changes import instance_of, let_end, running_job

from tests.cluster.moved_in.there_before import ZONE, FileSystems, Network, volume_state, volume_with_a_file
from tests.nightly.moved_in.seen import MOUNTED, MOUNTS, Seen, differences, tags_of

SUBJECTS = [
    "gpucluster/updates/*",
    "gpucluster/cli/changes.py",
    "gpucluster/cli/up.py",
    "gpucluster/config/storage/existing/*",
    "gpucluster/config/storage/ebs/*",
    "stacks/cluster.py",
    "stacks/head.py",
    "stacks/images.py",
    "stacks/partitions.py",
    "stacks/roles.py",
    "stacks/tags.py",
    "stacks/storage/*",
    "bootstrap/lib/mounts.sh",
    "bootstrap/lib/user_scripts.sh",
    "bootstrap/steps/storage/*",
    "bootstrap/steps/jobs/job_credentials.sh",
    "bootstrap/gpucluster_node/jobs/*",
]
COVERED_BY = (
    "test_update_table.py changes every key in the template; test_changes.py and test_moved_in_slurm.py change others "
    "on booted nodes; test_disks.py and test_storage_steps.py run the steps that mount"
)
NAME, BUCKET = "Changes", "changes"
IN_PLACE, NEW_NODES, DRAIN, HEAD_REPLACED = "in place", "new nodes", "drain", "head replaced"
ONE = ("--nodes", "1", "--ntasks-per-node", "1", "--launcher", "srun", "--preflight", "off")
SETUP = '#!/bin/sh\necho "first $GPUCLUSTER_NODE_TYPE $*" >/var/tmp/ran\n'
SECOND = '#!/bin/sh\necho "second $*" >/var/tmp/ran-too\n'
READ = f"import boto3; print(boto3.client('s3').get_object(Bucket='{BUCKET}', Key='for-jobs')['Body'].read())"
READS = f'/usr/bin/python3 -c "{READ}"'
DATA = f"s3://{BUCKET}/data"
NAMED = f"for each in {' '.join(MOUNTS)}; do echo $each >$each/was; done"
"""A file on each, with the place where it was mounted first."""
WITH_POLICIES = ("HeadRole", "ComputeRole", "StorageJobsRole")

Config = dict[str, Any]


class Changes(Seen):
    def __init__(self, bed: Bed) -> None:
        super().__init__(bed, NAME)
        self.network = Network(bed.client("ec2"))
        self.network.add_endpoint()
        self.group = self.network.group("licences")
        self.files = FileSystems(bed, self.network)
        granted = {"Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/for-jobs"}
        self.policy = self._policy("team", granted)
        self.boundary = self._policy("boundary", {"Action": "*", "Resource": "*"})
        self.config: Config = {
            "name": NAME,
            "region": "us-east-1",
            "availability_zone": ZONE,
            "network": {"vpc_id": self.network.vpc, "subnet_id": self.network.subnet},
            "head_node": {"instance_type": "m6i.large", "volume_gib": 50},
            "partitions": [{"name": "work", "instance_types": ["m6i.xlarge"], "max_nodes": 2}],
            "accounting": "off",
        }
        self.old = ""
        """A volume with a file, once the head node has made it."""
        self.first: dict[str, Any] = {}

    def _policy(self, name: str, statement: dict[str, str]) -> str:
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]}
        made = self.iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(document))
        return str(made["Policy"]["Arn"])

    def work(self, **keys: Any) -> Config:
        return {"partitions": [self.config["partitions"][0] | keys]}

    def becomes(self, config: Config, *options: str) -> dict[str, str]:
        """The effect of each key that `up` has changed. `plan` lists the same changes."""
        self.write(config)
        planned = json.loads(self.bed.gpucluster("plan", "--json").stdout)["changes"]
        done = self.bed.up(*options)
        assert done["changed"] and planned == done["changes"]
        return {each["key"]: each["effect"] for each in done["changes"]}

    def write(self, config: Config) -> None:
        self.bed.config.write_text(json.dumps(config, indent=1))

    def on_node(self, command: str) -> str:
        """What a job prints."""
        job = self.bed.submit(*ONE, "--follow", "--", "bash", "-ec", command)
        assert job.exit_code == 0, job.told + "\n".join(job.log)
        return "\n".join(line.partition("] ")[2] for line in job.log)

    def the_node(self) -> str:
        """The id of the only node's instance, after a job on it."""
        (found,) = self.bed.instances("compute")
        return found


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Changes]:
    with opened(replace(Bed.make(tmp_path_factory.mktemp("changes")), python="/home/plain")) as bed:
        bed.client("s3").create_bucket(Bucket=BUCKET)
        bed.client("s3").put_object(Bucket=BUCKET, Key="for-jobs", Body=b"granted by a policy")
        made = Changes(bed)
        (bed.folder / "setup.sh").write_text(SETUP)
        (bed.folder / "second.sh").write_text(SECOND)
        made.write(made.config)
        bed.up()
        bed.ssh("sh", "-c", f"sudo mkdir -p {bed.python}/bin && sudo ln -s /usr/bin/python3 {bed.python}/bin/python")
        made.old = volume_with_a_file(bed)
        made.first = made.state()
        yield made


def scripts(*arguments: str, second: bool = True) -> list[Config]:
    return [{"source": "./setup.sh", "args": list(arguments)}, *([{"source": "./second.sh"}] if second else [])]


def with_all(changes: Changes) -> Config:
    """The first file, with what running nodes get too."""
    files = changes.files
    storage = [
        {"mount": "/lustre", "type": "fsx-lustre", "file_system_id": files.lustre},
        {"mount": "/efs", "type": "efs", "file_system_id": files.efs},
        {"mount": "/zfs", "type": "fsx-openzfs", "volume_id": files.openzfs},
        {"mount": "/ontap", "type": "fsx-ontap", "volume_id": files.ontap},
        {"mount": "/own", "type": "efs"},
        {"mount": "/disk", "type": "ebs", "gib": 1},
        {"mount": "/old", "type": "ebs", "volume_id": changes.old},
    ]
    options = {"partition_options": {"MaxTime": "2-0"}, "node_options": {"Weight": 5, "Feature": "fast"}}
    return changes.config | {
        "head_node": changes.config["head_node"] | {"scripts": scripts("a b")},
        **changes.work(scripts=scripts("a b"), **options),
        "storage": storage,
        "s3_access": [{"uri": DATA}],
        "security": {
            "policies": dict.fromkeys(("head", "nodes", "jobs"), [changes.policy]),
            "permissions_boundary_arn": changes.boundary,
        },
    }


ADDED = [
    "head_node.scripts",
    *(f"partitions[work].{key}" for key in ("scripts", "partition_options", "node_options")),
    *(f"storage[{mount}]" for mount in MOUNTS),
    f"s3_access[{DATA}]",
    *(f"security.policies.{role}" for role in ("head", "nodes", "jobs")),
    "security.permissions_boundary_arn",
]


def test_what_is_added_reaches_running_nodes_and_a_running_job_stays(changes: Changes) -> None:
    bed = changes.bed
    with running_job(bed, "work"):
        node = bed.ssh("squeue", "-h", "-o", "%N").strip()
        launched = instance_of(bed, node)
        assert changes.becomes(with_all(changes)) == dict.fromkeys(ADDED, IN_PLACE)
    roles = changes.roles()
    assert all(changes.attached(name) == [changes.policy] for name in WITH_POLICIES)
    assert all(each["boundary"] == changes.boundary for each in roles.values()), roles
    assert changes.on_head(f"{NAMED}; cat /old/before; {MOUNTED}").split() == ["kept", *MOUNTS]
    assert changes.on_node(f"{READS}; cat /old/before; hostname; {MOUNTED}").split()[-2 - len(MOUNTS) :] == [
        "kept", node, *MOUNTS
    ]  # fmt: skip
    assert instance_of(bed, node) == launched, "the same node, without another boot"
    shown = bed.ssh("scontrol", "--oneliner", "show", "node", node)
    assert "Weight=5" in shown and "fast" in shown
    assert "MaxTime=2-00:00:00" in bed.ssh("scontrol", "show", "partition", "work")
    assert changes.on_head("ls /var/tmp/ran* 2>/dev/null | wc -l") == "0\n", "scripts are for a head node that boots"


def test_a_jobs_role_that_went_and_came_back_is_used_by_a_running_job(changes: Changes) -> None:
    bed = changes.bed
    waits = "until [ -e $GPUCLUSTER_JOB_DIR/go-on ]; do sleep 1; done"
    job = bed.submit(*ONE, "--", "bash", "-ec", f"{READS}; {waits}; {READS}; echo same process $$")
    log = ("sh", "-c", f"cat {job.last['folder']}/log.txt 2>/dev/null || :")
    wait_for("its first reading", lambda: "granted" in bed.ssh(*log), 120)

    (bed.folder / "setup.sh").write_text(SETUP.replace("first", "changed"))
    without = with_all(changes) | changes.work(scripts=scripts("c")) | {"s3_access": []}
    without["security"] = {
        "policies": {"head": [changes.policy]}, "permissions_boundary_arn": changes.boundary
    }  # fmt: skip
    gone = [f"s3_access[{DATA}]", "security.policies.nodes", "security.policies.jobs"]
    options = ["partitions[work].partition_options", "partitions[work].node_options"]
    both = ["head_node.scripts", "partitions[work].scripts"]
    assert changes.becomes(without) == dict.fromkeys((*gone, *options, *both), IN_PLACE)
    assert "StorageJobsRole" not in changes.roles()
    assert (changes.attached("HeadRole"), changes.attached("ComputeRole")) == ([changes.policy], [])
    assert "fast" not in bed.ssh("scontrol", "show", "node", "work-1")

    again = with_all(changes) | changes.work(scripts=scripts("c"))
    assert changes.becomes(again) == dict.fromkeys(gone, IN_PLACE)
    assert all(changes.attached(name) == [changes.policy] for name in WITH_POLICIES)
    let_end(bed, job)
    assert bed.ssh(*log).count("granted by a policy") == 2
    assert "granted" in bed.ssh("bash", "-lc", READS), "in a shell on the head node too"


ROOT = {"gib": 150, "iops": 4000, "throughput_mibps": 500}
OF_ROOT = [f"root_volume.{key}" for key in ROOT]


def for_new_nodes(changes: Changes) -> Config:
    keys = {"root_volume": ROOT, "security_groups": [changes.group], "scripts": scripts("c")}
    return with_all(changes) | changes.work(**keys) | {"tags": {"team": "vision", "cost center": "4711"}}


def test_new_nodes_have_tags_disks_groups_and_changed_scripts(changes: Changes) -> None:
    before = changes.the_node()
    keys = ["tags", *(f"partitions[work].{key}" for key in (*OF_ROOT, "security_groups"))]
    assert changes.becomes(for_new_nodes(changes)) == dict.fromkeys(keys, NEW_NODES)
    wait_for("the older node's end", lambda: before not in changes.bed.instances("compute"), 180)
    assert changes.on_node(f"{READS}; cat /var/tmp/ran /var/tmp/ran-too").split("\n")[1:] == [
        "changed compute c", "second "
    ]  # fmt: skip
    node = changes.the_node()
    found = changes.instance(node)
    assert changes.disk(node) == (150, 4000, 500)
    assert changes.group in {each["GroupId"] for each in found["SecurityGroups"]}
    for tags in (tags_of(found["Tags"]), *changes.tags(), changes.roles()["HeadRole"]["tags"]):
        assert {"team": "vision", "cost center": "4711"}.items() <= tags.items()


def drained(changes: Changes) -> Config:
    """Other nodes, and other kinds of storage at the same mounts."""
    files = changes.files
    keys = {"instance_types": ["m6i.2xlarge"], "threads_per_core": 1, "scripts": scripts("c", second=False)}
    storage = [
        {"mount": "/efs", "type": "efs", "file_system_id": files.efs},
        {"mount": "/zfs", "type": "ebs", "gib": 1},
        {"mount": "/ontap", "type": "fsx-ontap", "volume_id": files.ontap},
        {"mount": "/own", "type": "fsx-lustre", "file_system_id": files.lustre},
        {"mount": "/disk", "type": "fsx-openzfs", "volume_id": files.openzfs},
        {"mount": "/old", "type": "ebs", "volume_id": changes.old},
    ]
    return with_all(changes) | changes.work(**keys) | {"storage": storage, "tags": {"team": "speech"}}


def test_other_nodes_and_other_kinds_of_storage_need_a_drain(changes: Changes) -> None:
    bed, config = changes.bed, drained(changes)
    changes.write(config)
    refused = bed.gpucluster("up")
    assert refused.returncode == 2 and "running nodes of work must be terminated first" in refused.stderr
    effects = changes.becomes(config, "--drain")
    removed = dict.fromkeys([f"partitions[work].{key}" for key in (*OF_ROOT, "security_groups")], NEW_NODES)
    moved = [f"storage[{mount}].type" for mount in ("/zfs", "/own", "/disk")]
    other = [f"partitions[work].{key}" for key in ("instance_types", "threads_per_core")]
    assert effects == {
        **removed, "tags": NEW_NODES, "partitions[work].scripts": IN_PLACE,
        **dict.fromkeys([*moved, *other, "storage[/lustre]"], DRAIN),
    }  # fmt: skip
    there = "cat /efs/was /ontap/was /own/was /disk/was /old/was; ls /zfs/was 2>/dev/null || echo empty; hostname"
    moved_to = ["/efs", "/ontap", "/lustre", "/zfs", "/old", "empty"]
    assert changes.on_head(f"{there}; {MOUNTED}").split() == [*moved_to, "head", *MOUNTS[1:]]
    assert changes.on_node(f"{there}; {MOUNTED}").split() == [*moved_to, "work-1", *MOUNTS[1:]]
    node = changes.instance(changes.the_node())
    (template,) = changes.templates().values()
    assert node["InstanceType"] == "m6i.2xlarge" and template["CpuOptions"] == {"CoreCount": 4, "ThreadsPerCore": 1}
    assert "CPUTot=4 " in bed.ssh("scontrol", "--oneliner", "show", "node", "work-1")
    tags = tags_of(node["Tags"])
    assert tags["team"] == "speech" and "cost center" not in tags
    assert "cost center" not in changes.roles()["HeadRole"]["tags"]


def test_changed_back_nothing_of_it_is_left(changes: Changes) -> None:
    effects = changes.becomes(changes.config, "--drain")
    assert effects["tags"] == NEW_NODES
    unmounted = [f"storage[{mount}]" for mount in ("/efs", "/zfs", "/ontap", "/own", "/disk", "/old")]
    nodes = [f"partitions[work].{key}" for key in ("instance_types", "threads_per_core")]
    assert {effects[key] for key in (*unmounted, *nodes)} == {DRAIN}
    assert {effects[key] for key in ADDED if key in effects and not key.startswith("storage")} == {IN_PLACE}
    assert not differences(changes.first, changes.state())
    assert changes.on_node("ls -d /var/tmp/ran /lustre 2>/dev/null || echo nothing") == "nothing"
    ec2, efs = changes.bed.client("ec2"), changes.bed.client("efs")
    changes.bed.client("ec2").detach_volume(VolumeId=changes.old)  # docs/storage.md: that frees it
    wait_for("the volume", lambda: volume_state(ec2, changes.old) == "available", 60)
    kept = [each["FileSystemId"] for each in efs.describe_file_systems()["FileSystems"]]
    assert len(kept) == 2 and changes.files.efs in kept, "on_delete: retain keeps the cluster's own"


def test_a_head_node_with_another_disk_takes_over_and_the_first_one_comes_back(changes: Changes) -> None:
    bed = changes.bed
    bed.ssh("sh", "-c", "echo kept >/home/ubuntu/kept")
    heads = bed.instances("head").keys()
    keys = {"root_volume": ROOT, "security_groups": [changes.group], "threads_per_core": 1}
    other = changes.config | {"head_node": changes.config["head_node"] | keys | {"scripts": scripts("d")}}
    replaced = [f"head_node.{key}" for key in (*OF_ROOT, "security_groups", "threads_per_core")]
    effects = dict.fromkeys(replaced, HEAD_REPLACED) | {"head_node.scripts": IN_PLACE}
    assert changes.becomes(other, "--drain") == effects
    (head,) = bed.instances("head")
    assert head not in heads and changes.disk(head) == (150, 4000, 500)
    found = changes.instance(head)
    assert changes.head_in_template()["CpuOptions"] == {"CoreCount": 1, "ThreadsPerCore": 1}
    assert changes.group in {each["GroupId"] for each in found["SecurityGroups"]}
    assert changes.on_head("cat /var/tmp/ran /home/ubuntu/kept") == "changed head d\nkept\n"
    assert changes.on_node("echo runs") == "runs"

    assert changes.becomes(changes.config, "--drain") == effects
    assert not differences(changes.first, changes.state())
    assert (
        changes.on_head("cat /home/ubuntu/kept; ls /var/tmp/ran 2>/dev/null || echo no script") == "kept\nno script\n"
    )
    assert changes.on_node("echo runs") == "runs"


def test_a_prefix_of_roles_is_refused(changes: Changes) -> None:
    changes.write(changes.config | {"security": {"role_prefix": "team-"}})
    for verb in ("plan", "up"):
        done = changes.bed.gpucluster(verb)
        assert done.returncode == 2 and "IAM cannot rename a role" in done.stdout + done.stderr
    changes.write(changes.config)
    assert changes.bed.up()["changed"] is False
    assert not differences(changes.first, changes.state())
