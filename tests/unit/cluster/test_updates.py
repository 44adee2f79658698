"""Effects of a changed cluster file on a running cluster: the table, the differences, the messages."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucluster import config, updates
from gpucluster.config import ClusterConfig
from gpucluster.config.outcome import nothing
from gpucluster.config.section import Section
from gpucluster.config.storage import Efs, FsxLustre
from gpucluster.updates import Change, Effect
from gpucluster.updates.difference import NAMED_BY

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = (ROOT / "examples" / "reference.yaml").read_text()
SMALL = """
name: c
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 4}
  - {name: cpu, instance_types: [m6i.large], min_nodes: 1, max_nodes: 2}
"""


def changes(old: str, new: str) -> tuple[Change, ...]:
    return updates.compare(config.loads(old), config.loads(new))


def changed(old: str, new: str, text: str = SMALL) -> tuple[Change, ...]:
    assert old in text
    return changes(text, text.replace(old, new, 1))


def keys_of(section: type[Section], prefix: str = "") -> Iterator[str]:
    """Keys of all fields of the models, in the table's form; the field that names an entry is not a key."""
    for name, field in section.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        inner = list(sections(field.annotation))
        if not inner or (typing.get_origin(field.annotation) is tuple and key not in NAMED_BY):
            yield key
            continue
        entries = key in NAMED_BY
        optional = type(None) in typing.get_args(field.annotation)
        if entries or optional:
            yield f"{key}[]" if entries else key
        for each in inner:
            for found in keys_of(each, f"{key}[]." if entries else f"{key}."):
                if not (entries and found == f"{key}[].{NAMED_BY[key]}"):
                    yield found


def sections(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in typing.get_args(annotation):
        yield from sections(part)


def test_every_key_has_a_policy_and_no_policy_lacks_its_key() -> None:
    assert set(keys_of(ClusterConfig)) | {"partitions"} == set(updates.POLICIES)


def test_nothing_changed_is_no_change() -> None:
    assert changes(REFERENCE, REFERENCE) == ()
    assert updates.summary(()) == "no changes"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_nodes: 4", "max_nodes: 4, min_nodes: 0, efa: auto, idle_minutes: 10"),
        ("region:", "storage: [{mount: /home, type: head-nfs}]\nregion:"),
        ("region:", "software: {frameworks: [horovod, torch]}\nregion:"),
    ],
    ids=["defaults", "home", "order"],
)
def test_equivalent_spellings_are_no_change(old: str, new: str) -> None:
    assert changed(old, new) == ()


def test_partitions_in_another_order_only_change_which_is_the_default() -> None:
    cluster = config.loads(SMALL)
    turned = cluster.model_copy(update={"partitions": cluster.partitions[::-1]})
    (change,) = updates.compare(cluster, turned)
    assert (change.difference.path, change.effect) == ("partitions", Effect.IN_PLACE)
    more = config.loads(SMALL + "  - {name: new, instance_types: [m6i.large], max_nodes: 1}\n")
    first, second, third = more.partitions
    assert updates.compare(more, more.model_copy(update={"partitions": (first, third, second)})) == ()


CASES = {
    "a node more": ("max_nodes: 4", "max_nodes: 5", Effect.IN_PLACE, "train-5 can be used when `up` returns"),
    "two fewer": ("max_nodes: 4", "max_nodes: 2", Effect.DRAIN, "train-3 to train-4 must be removed"),
    "always on": ("min_nodes: 1", "min_nodes: 2", Effect.IN_PLACE, "cpu-2 will be launched and stay on"),
    "other GPUs": ("g5.12xlarge", "g5.48xlarge", Effect.DRAIN, "Gres=gpu:a10g:8 instead of CPUs=48"),
    "a second type alike": ("[m6i.large]", "[m6i.large, m6i.2xlarge]", Effect.NEW_NODES, "these types"),
    "no group": ("max_nodes: 4", "max_nodes: 4, placement_group: none", Effect.DRAIN, "must be empty"),
    "spot": ("max_nodes: 4", "max_nodes: 4, purchase: spot", Effect.NEW_NODES, "replaced as their jobs end"),
    "image of one": ("max_nodes: 4", "max_nodes: 4, image: ami-0123456789abcdef0", Effect.NEW_NODES, "boot from it"),
    "image of all": (
        "region:",
        "software: {image: ami-0123456789abcdef0}\nregion:",
        Effect.HEAD_REPLACED,
        "takes over",
    ),
    "larger head": ("region:", "head_node: {instance_type: m6i.4xlarge}\nregion:", Effect.HEAD_RESTARTS, "stops and"),
    "more disk": ("region:", "head_node: {volume_gib: 400}\nregion:", Effect.IN_PLACE, "grow while"),
    "less disk": ("region:", "head_node: {volume_gib: 100}\nregion:", Effect.REFUSED, "cannot shrink a volume"),
    "another zone": (
        "region:",
        "availability_zone: us-east-1b\nregion:",
        Effect.REFUSED,
        "cannot move to another zone",
    ),
    "root disk": ("region:", "head_node: {root_volume: {gib: 101}}\nregion:", Effect.HEAD_REPLACED, "takes over"),
    "root disk as it is": ("region:", "head_node: {root_volume: {gib: 100}}\nregion:", Effect.NOTHING, "by default"),
    "disks as they are": ("max_nodes: 4", "max_nodes: 4, root_volume: {gib: 100}", Effect.NOTHING, "by default"),
    "findings": ("region:", "silence: []\nregion:", None, ""),
    "a budget": ("region:", "budget: {monthly_usd: 90000}\nregion:", Effect.IN_PLACE, "AWS Budgets"),
}


SHARED = SMALL.replace(
    "  - {name: cpu", "  - {name: big, instance_types: [p4d.24xlarge], max_nodes: 2}\n  - {name: cpu"
)
SHARED += "parameter_servers: {instance_type: m5.4xlarge, max_nodes: 4}\n"
TRAIN, BIG = (line + "\n" for line in SHARED.splitlines() if "train" in line or "big" in line)
NO_GROUP = "max_nodes: {}, placement_group: none"


@pytest.mark.parametrize(
    ("old", "new", "drained", "moved"),
    [
        (TRAIN, "", {"train": 0, "ps": 0}, "train -> shared with big"),
        (BIG, "", {"big": 0}, ""),
        (TRAIN + BIG, "", {"train": 0, "big": 0, "ps": 0}, "train -> shared with cpu"),
        (TRAIN + BIG, BIG + TRAIN, {}, "train -> shared with big"),
        (TRAIN, BIG.replace("big", "new") + TRAIN, {}, "train -> shared with new"),
        (TRAIN, TRAIN.replace("max_nodes: 4", NO_GROUP.format(4)), {"train": 0, "ps": 0}, "train -> shared with big"),
        (BIG, BIG.replace("max_nodes: 2", NO_GROUP.format(2)), {"big": 0}, ""),
    ],
    ids=["owner", "other", "two", "order", "another first", "no group", "no group of the other"],
)
def test_parameter_servers_are_in_the_first_partitions_group(
    old: str, new: str, drained: dict[str, int], moved: str
) -> None:
    """The group cannot be deleted while they are in it. If it stays, they move when they are replaced."""
    found = changed(old, new, SHARED)
    assert updates.drains(found, config.loads(SHARED)) == drained
    group_changes = [change for change in found if change.difference.key == "parameter_servers.placement_group"]
    assert [change.effect for change in group_changes] == ([Effect.NEW_NODES] if moved else [])
    assert all(f"shared with {moved}: applies to new nodes" in change.line() for change in group_changes), [
        each.line() for each in group_changes
    ]


def test_parameter_servers_with_a_place_of_their_own_stay_when_a_partition_goes() -> None:
    text = SHARED.replace("m5.4xlarge,", "m5.4xlarge, placement_group: none,")
    found = changes(text, text.replace(TRAIN, ""))
    assert updates.drains(found, config.loads(text)) == {"train": 0}
    assert all(change.difference.key.startswith("partitions") for change in found)


PROTECTED = SMALL.replace("region:", "head_node: {termination_protection: true}\nregion:")
DELETED = SMALL.replace("region:", "head_node: {on_delete: delete}\nregion:")


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        (PROTECTED + "accounting: rds\n", "accounting: rds", "accounting: local", "protected against deletion"),
        (DELETED + "accounting: rds\n", "accounting: rds", "accounting: local", "records of all jobs would be deleted"),
    ],
)
def test_changes_that_delete_protected_resources_are_refused(text: str, old: str, new: str, words: str) -> None:
    (change,) = updates.compare(_lenient(text), _lenient(text.replace(old, new, 1)))
    assert change.effect is Effect.REFUSED and words in change.line()


STOPS = "budget: {monthly_usd: 90000, email: a@example.com, at_limit: stop-launches}"


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ("90000", "95000", True),
        ("90000", "80000", False),
        ("a@", "b@", True),
        (", at_limit: stop-launches", "", True),
        (STOPS, "", True),
        (STOPS, STOPS, False),
    ],
    ids=["more money", "less money", "another address", "only notifies", "no budget", "the same"],
)
def test_which_changes_of_a_budget_bring_launches_back(old: str, new: str, again: bool) -> None:
    """Only AWS Budgets knows whether it has stopped them."""
    text = f"{SMALL}{STOPS}\n"
    found = changed(old, new, text)
    assert any(change.outcome.launches_again for change in found) is again
    assert any("if it has stopped launches" in change.line() for change in found) is again
    assert all(change.effect is Effect.IN_PLACE for change in found)


def test_a_budget_without_a_stop_brings_no_launches_back() -> None:
    for old in (SMALL, SMALL + STOPS.replace("stop-launches", "notify")):
        (change,) = changes(old, SMALL + STOPS)
        assert not change.outcome.launches_again


@pytest.mark.parametrize("case", CASES)
def test_what_a_change_does(case: str) -> None:
    old, new, effect, words = CASES[case]
    found = changed(old, new)
    assert [change.effect for change in found] == ([effect] if effect else [])
    assert all(words in change.line() for change in found)


def storage(entry: str) -> str:
    return f"{SMALL}storage:\n  - {entry}\n"


FSX = "{mount: /fsx, type: fsx-lustre, capacity_gib: 2400, metadata_iops: 3000}"
EFS = "{mount: /efs, type: efs}"
BEEGFS = "{mount: /ram, type: beegfs-ram, partition: cpu, gib_per_node: 1}"
STORAGE = {
    "made": (SMALL, storage(FSX), Effect.IN_PLACE),
    "deleted with its data": (storage(FSX), SMALL, Effect.REFUSED),
    "let go": (storage(EFS), SMALL, Effect.DRAIN),
    "let go, deleted by the new file": (storage(FSX.replace("3000", "3000, on_delete: retain")), SMALL, Effect.DRAIN),
    "memory given back": (storage(BEEGFS), SMALL, Effect.DRAIN),
    "more memory": (storage(BEEGFS), storage(BEEGFS.replace("node: 1", "node: 2")), Effect.DRAIN),
    "more capacity": (storage(FSX), storage(FSX.replace("2400", "4800")), Effect.IN_PLACE),
    "less capacity": (storage(FSX), storage(FSX.replace("2400", "1200")), Effect.REFUSED),
    "fewer operations": (storage(FSX), storage(FSX.replace("3000", "1500")), Effect.REFUSED),
    "more operations": (storage(FSX), storage(FSX.replace("3000", "6000")), Effect.IN_PLACE),
    "another kind": (storage(FSX), storage(FSX.replace("2400", "2400, deployment: persistent-1")), Effect.REFUSED),
    "of another type": (storage(FSX), storage(EFS.replace("/efs", "/fsx")), Effect.REFUSED),
    "home elsewhere": (SMALL, storage(EFS.replace("/efs", "/home")), Effect.REFUSED),
}


@pytest.mark.parametrize("case", STORAGE)
def test_what_a_change_of_storage_does(case: str) -> None:
    old, new, effect = STORAGE[case]
    before, after = (updates.difference.plain(_lenient(text)) for text in (old, new))
    assert before != after
    found = updates.compare(_lenient(old), _lenient(new))
    assert effect in {change.effect for change in found}, [change.line() for change in found]


def _lenient(text: str) -> ClusterConfig:
    """Leaves out rules across keys, because these cases are about single keys."""
    from gpucluster.config.parse import parse

    return ClusterConfig.model_validate(parse(text, "cluster.yaml").data)


def test_setting_the_default_image_changes_nothing() -> None:
    ami = "ami-0123456789abcdef0"
    old = SMALL.replace("region:", f"software: {{image: {ami}}}\nregion:")
    (change,) = changes(old, old.replace("max_nodes: 4", f"max_nodes: 4, image: {ami}"))
    assert change.effect is Effect.NOTHING


def test_drains_count_only_where_nodes_run() -> None:
    found = changed("max_nodes: 4", "max_nodes: 2")
    assert updates.summary(updates.settle(found, [("train", 2), ("cpu", 1)])) == "1 in place, head node untouched"
    settled = updates.settle(found, [("train", 3)])
    assert updates.summary(settled) == "1 needs partition train drained, head node untouched"
    assert updates.drains(settled, config.loads(SMALL)) == {"train": 2}
    assert updates.summary(updates.settle(found, [("train", None)])) == updates.summary(settled), "not named yet"


def test_the_summary_counts_each_kind() -> None:
    new = SMALL.replace("max_nodes: 4", "max_nodes: 6, idle_minutes: 5, purchase: spot").replace(
        "m6i.large", "m6i.xlarge"
    )
    found = updates.settle(changes(SMALL, new), [("cpu", 1)])
    assert (
        updates.summary(found) == "2 in place, 1 for new nodes only, 1 needs partition cpu drained, head node untouched"
    )


def test_replacing_the_head_node_ends_all_nodes() -> None:
    found = changed(*CASES["image of all"][:2])
    assert updates.summary(found) == "head node replaced"
    assert updates.drains(found, config.loads(SMALL)) == {"train": 0, "cpu": 0}


def test_the_deployed_file_is_read_back_unchanged() -> None:
    for text in (SMALL, REFERENCE):
        kept = updates.metadata(config.loads(text), availability_zone="us-east-1a")
        deployed = updates.read(json.loads(json.dumps(kept)))
        assert changes_since(deployed, text) == ()


WITH_SERVERS = SMALL + "parameter_servers: {max_nodes: 2}\n"
FORMER_LINE = "CPUs=48 RealMemory=186777 Gres=gpu:a10g:4"


def record_of_former_version(text: str, lines: dict[str, str] | None) -> updates.Deployed:
    """`lines`: the node lines of the deployment; None: its record has none."""
    kept = json.loads(updates.metadata(config.loads(text), availability_zone="us-east-1a")["GpuCluster"])
    if lines is None:
        del kept["node_lines"]
    else:
        kept["node_lines"] |= lines
    return updates.read({"GpuCluster": json.dumps(kept)})


def changes_since(deployed: updates.Deployed, text: str) -> tuple[updates.Change, ...]:
    return updates.compare(*deployed.compared_with(config.loads(text), {}), node_lines=deployed.node_lines)


@pytest.mark.parametrize("lines", [{"train": FORMER_LINE}, {"train": "CPUs=48 Sockets=2 CoresPerSocket=24 more"}])
def test_a_version_that_writes_other_node_lines_needs_their_nodes_drained(lines: dict[str, str]) -> None:
    """slurmctld ends running jobs on nodes whose number of cores changes: Slurm 23.11, read_config.c, "Aborting … due
    to change in socket/core configuration of allocated nodes"."""
    found = changes_since(record_of_former_version(SMALL, lines), SMALL)
    (change,) = updates.settle(found, [("train", 1), ("cpu", 1)])
    assert (change.effect, updates.drains([change], config.loads(SMALL))) == (Effect.DRAIN, {"train": 0})
    line = change.line()
    assert line.startswith(
        f"partitions[train] in slurm.conf: {lines['train']} -> CPUs=48 Sockets=1 CoresPerSocket=24 "
    ), line
    assert "this version of GpuCluster" in line
    (idle,) = updates.settle(found, [("cpu", 1)])
    assert idle.effect is Effect.IN_PLACE


def test_a_record_without_node_lines_is_of_a_version_that_wrote_cpus_alone() -> None:
    deployed = record_of_former_version(WITH_SERVERS, None)
    assert deployed.node_lines["train"] == FORMER_LINE
    found = changes_since(deployed, WITH_SERVERS)
    paths = ["partitions[train] in slurm.conf", "partitions[cpu] in slurm.conf", "parameter_servers in slurm.conf"]
    assert [change.difference.path for change in found] == paths
    assert {change.effect for change in found} == {Effect.DRAIN}


def test_nodes_whose_slurm_has_ports_of_users_are_replaced() -> None:
    """Versions until November 2026: slurmd on 6818, and slurmctld on 6817, which the lines do not name."""
    now = record_of_former_version(SMALL, {}).node_lines
    lines = {name: line.replace(" Port=298", "") for name, line in now.items()}
    assert dict(now) != lines
    found = changes_since(record_of_former_version(SMALL, lines), SMALL)
    assert {change.effect for change in found} == {Effect.DRAIN}
    assert updates.drains(found, config.loads(SMALL)) == dict.fromkeys(lines, 0)


def test_partitions_that_are_new_or_removed_have_no_former_node_line() -> None:
    deployed = record_of_former_version(WITH_SERVERS, None)
    other = SMALL.replace("name: cpu", "name: other")
    found = [change.difference.path for change in changes_since(deployed, other)]
    assert "partitions[cpu]" in found and "parameter_servers" in found
    assert [path for path in found if "slurm.conf" in path] == ["partitions[train] in slurm.conf"]


def test_naming_the_zone_that_is_used_anyway_is_no_change() -> None:
    deployed = updates.read(updates.metadata(config.loads(SMALL), availability_zone="us-east-1a"))
    same, other = (
        config.loads(SMALL.replace("region:", f"availability_zone: us-east-1{zone}\nregion:")) for zone in "ab"
    )
    assert updates.compare(*deployed.compared_with(same, {})) == ()
    assert [change.effect for change in updates.compare(*deployed.compared_with(other, {}))] == [Effect.REFUSED]


def test_an_image_that_was_looked_up_again_is_another_one() -> None:
    """Its name in the file is the same, but the id in cdk.context.json is not."""
    cluster = config.loads(SMALL)
    images = {"dlami-ubuntu-24.04": updates.LookedUp("ssm:x", "ami-1")}
    deployed = updates.read(updates.metadata(cluster, availability_zone="us-east-1a", images=images))
    assert updates.compare(*deployed.compared_with(cluster, {"ssm:x": "ami-1"})) == ()
    for pinned, words in (({"ssm:x": "ami-2"}, "ami-1 -> ami-2"), ({}, "ami-1 -> dlami-ubuntu-24.04")):
        (change,) = updates.compare(*deployed.compared_with(cluster, pinned))
        assert change.effect is Effect.HEAD_REPLACED and f"software.image: {words}" in change.line()


def test_fifty_partitions_take_a_small_record() -> None:
    rows = "".join(f"  - {{name: p{n}, instance_types: [p4d.24xlarge], max_nodes: 500}}\n" for n in range(50))
    text = SMALL.partition("  - ")[0] + rows
    assert len(json.dumps(updates.metadata(config.loads(text), availability_zone="us-east-1a"))) < 40_000


@pytest.mark.parametrize(
    "text",
    [None, "{", "{}", '{"config": {"name": "c"}, "availability_zone": "a"}', '{"config": {"colour": 1}}', "[]"],
)
def test_a_record_of_another_version_is_reported_as_unknown(text: str | None) -> None:
    with pytest.raises(updates.UnknownRecord):
        updates.read({} if text is None else {"GpuCluster": text})


def test_a_change_of_storage_has_the_effect_that_its_kind_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds may have keys of the same name. No two have one with different effects at present."""
    text = SMALL + "storage: [{mount: /fsx, type: fsx-lustre}, {mount: /efs, type: efs}]\n"
    for kind, effect in ((FsxLustre, "of Lustre"), (Efs, "of EFS")):
        monkeypatch.setattr(kind, "updates", {**kind.updates, "on_delete": nothing(effect)})
    other = text.replace("lustre}", "lustre, on_delete: retain}").replace("efs}", "efs, on_delete: delete}")
    found = changes(text, other)
    assert [(each.difference.path, each.outcome.happens) for each in found] == [
        ("storage[/fsx].on_delete", "of Lustre"),
        ("storage[/efs].on_delete", "of EFS"),
    ]
