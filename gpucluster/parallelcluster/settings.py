"""What is neither a node nor a file system: the network, Slurm, IAM, tags, monitoring."""

from __future__ import annotations

import re
from typing import Any

from gpucluster.config.checks.slurm_lines import DESCRIBING
from gpucluster.parallelcluster.conversion import Conversion, Subnet, item
from gpucluster.parallelcluster.lines import Item, Text
from gpucluster.parallelcluster.reading import Node

OUTSIDE = "0.0.0.0/0"
STAND_IN, STAND_IN_ID = Subnet("vpc-0123456789abcdef0", ""), "subnet-0123456789abcdef0"
"""For a subnet that could not be looked up, while the other keys are checked. Its zone is the region's first."""
_OF_INSTANCES = re.compile(r"policy/(service-role/)?(AmazonSSM|CloudWatchAgent)")
"""Policies for agents of instances, which jobs do not run."""


def network(conversion: Conversion) -> tuple[Item | None, bool]:
    """The section, and whether the user has to fill in its VPC."""
    head, queues = conversion.file.section("HeadNode"), conversion.file.section("Scheduling").sections("SlurmQueues")
    of_head = head.section("Networking").text("SubnetId")
    of_queues = list(dict.fromkeys(each for queue in queues for each in queue.section("Networking").texts("SubnetIds")))
    chosen = next((each for each in of_queues if each in conversion.subnets), (of_queues or [of_head])[0])
    found = conversion.subnets.get(chosen)
    others = [each for each in dict.fromkeys((*of_queues, of_head)) if each and each != chosen]
    items: list[Item] = []
    filled = found or (STAND_IN if conversion.needs_vpc else None)
    sources = [key for key, have in (("SubnetIds", of_queues), ("SubnetId", of_head)) if have]
    said = f"{', '.join(sources)}: the subnet of all nodes; it must be private, with a way to the internet"
    said += f"; not {', '.join(others)}" if others else ""
    if filled and chosen:
        items.append(Item("vpc_id", filled.vpc_id, "the subnet's VPC"))
        conversion.subnet = chosen
        items.append(Item("subnet_id", chosen if found else STAND_IN_ID, said))
    elif chosen:
        why = (
            "without AWS credentials the subnet's VPC is not known, so the cluster gets a VPC of its own. To use yours:"
        )
        items.append(Item("vpc_id", "vpc-ID", off=f"{why} aws ec2 describe-subnets --subnet-ids {chosen}"))
        items.append(Item("subnet_id", chosen, said, off="and availability_zone above: the subnet's"))
        conversion.check("the cluster gets a VPC of its own: network.vpc_id says how to use the file's subnet")
        if conversion.needs_zone:
            reserved = ", ".join(dict.fromkeys(conversion.needs_zone))
            conversion.check(f"write availability_zone: that of {reserved}; `plan` compares them")
    if others and filled:
        conversion.check(f"all nodes are in {chosen}, none in {', '.join(others)}")
    items += _from_outside(head, bool(filled))
    items += _proxy(head, queues)
    return (Item("network", items) if items else None), bool(chosen and filled and not found)


def _from_outside(head: Node, existing: bool) -> list[Item]:
    ssh = head.section("Ssh")
    allowed = ssh.text("AllowedIps")
    if not allowed:
        return []
    why = ""
    if allowed == OUTSIDE or not re.fullmatch(r"[0-9./]+", allowed):
        why = f"{allowed} is not a network that ssh_from can have; `gpucluster ssh` needs none"
    elif existing:
        why = "needs a public subnet, and only the nodes' private one is known; `gpucluster ssh` needs none"
    if why:
        ssh.leave("AllowedIps", f"{allowed}: {why}")
        return []
    return [item("ssh_from", [allowed], ssh, "AllowedIps")]


def _proxy(head: Node, queues: list[Node]) -> list[Item]:
    sections = [each.section("Networking", "Proxy") for each in (head, *queues)]
    found = [each.text("HttpProxyAddress") for each in sections]
    first = next((each for each in found if each), "")
    for section, address in zip(sections, found, strict=True):
        if address and address != first:
            section.leave("HttpProxyAddress", f"{address}: the cluster has one proxy, {first}")
    return [item("proxy", first, head, "Networking.Proxy")] if first else []


def slurm(conversion: Conversion) -> Item | None:
    settings = conversion.file.section("Scheduling", "SlurmSettings")
    items = []
    memory = settings.flag("EnableMemoryBasedScheduling")
    if memory is not None:
        ours = "allocated" if memory else "shared"
        items.append(item("memory", ours, settings, "EnableMemoryBasedScheduling"))
    if lines := _lines(settings):
        items.append(item("slurm_conf", Text("\n".join(lines)), settings, "CustomSlurmSettings"))
    if file := settings.data.get("CustomSlurmSettingsIncludeFile"):
        conversion.check(f"copy the lines of {file} into slurm.slurm_conf")
    return Item("slurm", items) if items else None


def _lines(settings: Node) -> list[str]:
    listed = settings.data.get("CustomSlurmSettings")
    settings.texts("CustomSlurmSettings")
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    made: list[str] = []
    for each in entries:
        describing = [key for key in each if str(key).lower() in DESCRIBING]
        words = [f"{key}={each[key]}" for key in dict.fromkeys((*describing, *each))]
        made += [" ".join(words)] if describing else words
    return made


def security(conversion: Conversion) -> Item | None:
    iam = conversion.file.section("Iam")
    items: list[Item | None] = [_policies(conversion)]
    keys = list(dict.fromkeys(conversion.keys))
    items += [Item("kms_key_arn", keys[0], "KmsKeyId")] if keys else []
    if len(keys) > 1:
        conversion.check(f"one KMS key encrypts everything, {keys[0]}: not {', '.join(keys[1:])}")
    if boundary := iam.text("PermissionsBoundary"):
        items.append(item("permissions_boundary_arn", boundary, iam, "PermissionsBoundary"))
    if prefix := iam.text("ResourcePrefix"):
        items.append(item("role_prefix", prefix, iam, "ResourcePrefix"))
    made = [each for each in items if each]
    return Item("security", made) if made else None


def _policies(conversion: Conversion) -> Item | None:
    head = conversion.file.section("HeadNode")
    queues = conversion.file.section("Scheduling").sections("SlurmQueues")
    of_head, of_queues = _arns([head]), _arns(queues)
    of_jobs = [each for each in of_queues if not _OF_INSTANCES.search(each)]
    source, items = "Iam.AdditionalIamPolicies", []
    if of_head:
        items.append(item("head", of_head, head, source))
    if of_queues:
        items.append(item("nodes", of_queues, queues[0], source))
    if of_jobs:
        said = "jobs had what their nodes have: remove those that programs of jobs do not need"
        items.append(Item("jobs", of_jobs, said))
    return Item("policies", items) if items else None


def _arns(nodes: list[Node]) -> list[str]:
    found = [each.text("Policy") for node in nodes for each in node.section("Iam").sections("AdditionalIamPolicies")]
    return list(dict.fromkeys(each for each in found if each))


def s3_access(conversion: Conversion) -> Item | None:
    head = conversion.file.section("HeadNode")
    queues = conversion.file.section("Scheduling").sections("SlurmQueues")
    access: dict[str, str] = {}
    for node in (head, *queues):
        for each in node.section("Iam").sections("S3Access"):
            bucket, key = each.text("BucketName"), each.text("KeyName", "*")
            if not bucket or "*" in bucket:
                each.leave("BucketName", f"{bucket}: s3_access names each bucket")
                continue
            prefix = re.split(r"[*?]", key)[0].strip("/")
            uri = f"s3://{bucket}/{prefix}".rstrip("/")
            if re.search(r"[^/*?][*?]|[*?].", key):
                conversion.check(f"s3_access has {uri} as a folder, which is not the same as KeyName: {key}")
            write = each.flag("EnableWriteAccess") or access.get(uri) == "read-write"
            access[uri] = "read-write" if write else "read"
    if not access:
        return None
    made: list[dict[str, Any]] = [{"uri": uri, "access": kind} for uri, kind in access.items()]
    return Item(
        "s3_access", made, "Iam.S3Access: BucketName, KeyName, EnableWriteAccess; jobs of all partitions have it"
    )


def tags(conversion: Conversion) -> Item | None:
    made: dict[str, str] = {}
    for each in conversion.file.sections("Tags"):
        key = each.text("Key")
        if key.lower().startswith(("aws:", "parallelcluster:")):
            each.leave("Key", f"{key}: its prefix is reserved")
            each.leave("Value", f"{key}: its prefix is reserved")
        elif key:
            made[key] = each.text("Value")
    return Item("tags", made, "Tags: Key, Value") if made else None


def monitoring(conversion: Conversion) -> Item | None:
    node = conversion.file.section("Monitoring")
    logs, dashboards = node.section("Logs", "CloudWatch"), node.section("Dashboards", "CloudWatch")
    items = []
    if (days := logs.number("RetentionInDays")) is not None:
        items.append(item("log_days", days, logs, "RetentionInDays"))
    if (shown := dashboards.flag("Enabled")) is not None:
        items.append(item("dashboard", shown, dashboards, "Enabled"))
    return Item("monitoring", items) if items else None
