"""The effect of each key's change on a running cluster. One row for each key; a test compares the rows with the models,
and their effects with CloudFormation's schemas.

Identifying keys are not here, because they cannot change: a partition's name, a storage's mount, a grant's address.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucluster.config.outcome import (
    Outcome,
    Rule,
    added_or_removed,
    growth,
    head_replaced,
    head_restarts,
    in_place,
    new_nodes,
    nothing,
    refused,
)
from gpucluster.config.sagemaker import SageMaker
from gpucluster.config.storage import KINDS
from gpucluster.updates import rules
from gpucluster.updates.rules import NEW_CLUSTER, REPLACED_AS_FREE, Step

_ELSEWHERE = refused("every node, the data volume and the file systems use this network", NEW_CLUSTER)
_OTHER_DOOR = in_place("new SSH connections come through it; those through the former endpoint end")
_LESS_DISK = refused("EBS cannot shrink a volume", f"keep the size; or {NEW_CLUSTER}")
_MORE_DISK = in_place("the volume and /home grow while in use; the next growth is possible after six hours")
# CloudFormation's guide, AWS::EC2::Instance, BlockDeviceMappings: "Modifying any other parameter results in instance
# replacement", and LaunchTemplate: replacement.
_OTHER_ROOT = head_replaced("a new head node with this root disk takes over the data volume")
_ROOT_OF_NODES = new_nodes(f"new nodes have this root disk; {REPLACED_AS_FREE}")
_ROOT = ("iops", "throughput_mibps")
_OTHER_CONTENT = refused(
    "the data volume keeps the content that it was created with",
    "keep the key as it was, even if the snapshot is deleted; to restore, create a new cluster under another name",
)
_NEW_PARTITION = in_place("its nodes are available when `up` returns")
_GRANT = in_place("applies to running and future jobs")
_IDLE = in_place("applies to running nodes too")
_PROXY = head_restarts(f"the head node stops and starts again; new nodes use it; {REPLACED_AS_FREE}")
_SCRIPTS = in_place("applies to nodes that boot from now on")
_GROUPS = new_nodes(f"applies to new nodes; {REPLACED_AS_FREE}")
_NEW_USER = in_place("running nodes get the account before their next job")
_FORMER_USER = in_place("can no longer log in or submit; jobs in the queue run, and the home directory stays")
_SAME_UID = refused("the files on /home belong to the old uid", "remove the user and add another one")
_TRAINING = nothing("applies to the next job on SageMaker; the cluster does not change")
_LIMIT = in_place("applies to pending jobs too")

POLICIES: Mapping[str, Outcome | Rule[Step]] = {
    "name": refused("a new name makes a new cluster", "keep the name; `down` deletes the cluster with the old name"),
    "region": refused("a cluster cannot move to another region", NEW_CLUSTER),
    "availability_zone": refused("the data volume cannot move to another zone", NEW_CLUSTER),
    "tags": new_nodes(f"the stack's resources and new nodes have them; {REPLACED_AS_FREE}"),
    "network.vpc_cidr": _ELSEWHERE,
    "network.vpc_id": _ELSEWHERE,
    "network.subnet_id": _ELSEWHERE,
    "network.connect_endpoint_id": _OTHER_DOOR,
    "network.connect_security_group_id": _OTHER_DOOR,
    "network.ssh_from": in_place("open connections stay open"),
    "network.internet": rules.internet,
    "network.proxy": _PROXY,
    "network.no_proxy": _PROXY,
    "head_node.instance_type": rules.type_of_head,
    "head_node.volume_gib": growth(_MORE_DISK, _LESS_DISK),
    "head_node.threads_per_core": rules.threads_of_head,
    "head_node.root_volume.gib": rules.root_gib(_OTHER_ROOT),
    **{f"head_node.root_volume.{key}": _OTHER_ROOT for key in _ROOT},
    "head_node.image": rules.image_of_head,
    "head_node.on_delete": in_place("applies when the cluster is deleted"),
    "head_node.snapshot_days": in_place("applies from the next daily snapshot"),
    "head_node.snapshot_id": _OTHER_CONTENT,
    "head_node.termination_protection": in_place("applies to `down` and to the EC2 console"),
    "head_node.scripts": in_place("applies to a head node that replaces this one"),
    "head_node.security_groups": head_replaced("a new head node takes over the data volume: EC2 has no other way"),
    "partitions": in_place("the file's first partition becomes the default"),
    "partitions[]": added_or_removed(_NEW_PARTITION, rules.removed_partition),
    "partitions[].instance_types": rules.instance_types,
    "partitions[].threads_per_core": rules.threads,
    "partitions[].root_volume.gib": rules.root_gib(_ROOT_OF_NODES),
    **{f"partitions[].root_volume.{key}": _ROOT_OF_NODES for key in _ROOT},
    "partitions[].image": rules.image_of_nodes,
    "partitions[].min_nodes": rules.least_nodes,
    "partitions[].max_nodes": rules.most_nodes,
    "partitions[].purchase": new_nodes(f"applies to new nodes; {REPLACED_AS_FREE}"),
    "partitions[].reservation_id": new_nodes(f"applies to new nodes; {REPLACED_AS_FREE}"),
    "partitions[].placement_group": rules.placement_group,
    "partitions[].efa": new_nodes(f"new nodes have these interfaces; {REPLACED_AS_FREE}"),
    "partitions[].scratch": in_place("applies to nodes that boot from now on"),
    "partitions[].idle_minutes": _IDLE,
    "partitions[].partition_options": in_place("slurmctld restarts; running jobs stay"),
    "partitions[].node_options": rules.node_options,
    "partitions[].max_usd_per_hour": in_place("applies to the next launch; running nodes stay"),
    "partitions[].scripts": _SCRIPTS,
    "partitions[].security_groups": _GROUPS,
    "parameter_servers": added_or_removed(_NEW_PARTITION, rules.removed_partition),
    "parameter_servers.instance_type": rules.instance_types,
    "parameter_servers.threads_per_core": rules.threads,
    "parameter_servers.root_volume.gib": rules.root_gib(_ROOT_OF_NODES),
    **{f"parameter_servers.root_volume.{key}": _ROOT_OF_NODES for key in _ROOT},
    "parameter_servers.min_nodes": rules.least_nodes,
    "parameter_servers.max_nodes": rules.most_nodes,
    "parameter_servers.placement_group": new_nodes(f"applies to new nodes; {REPLACED_AS_FREE}"),
    "parameter_servers.scripts": _SCRIPTS,
    "parameter_servers.security_groups": _GROUPS,
    "storage[]": added_or_removed(rules.added_storage, rules.removed_storage),
    "storage[].type": rules.other_storage_type,
    **{f"storage[].{key}": rules.changed_storage for kind in KINDS for key in kind.updates},
    "s3_access[]": added_or_removed(_GRANT, _GRANT),
    "s3_access[].access": _GRANT,
    "software.image": rules.image_of_all,
    "software.frameworks": in_place("each framework has its own Python environment; those in use stay"),
    "software.cache": in_place("applies to environments and packages of jobs that are made from now on"),
    "software.containers": in_place("applies to nodes that boot from now on"),
    "slurm.memory": rules.memory,
    "slurm.slurm_conf": in_place("slurmctld restarts, and running nodes read it; running jobs stay"),
    "slurm.cgroup_conf": in_place("running nodes read it; applies to jobs that start from now on"),
    "slurm.gres_conf": rules.gres_lines,
    "accounting": rules.accounting,
    "users[]": added_or_removed(_NEW_USER, _FORMER_USER),
    "users[].uid": _SAME_UID,
    "users[].public_key": in_place("replaces the key on the head node; open connections stay open"),
    "users[].fair_share": _LIMIT,
    "users[].max_jobs": _LIMIT,
    "users[].max_gpus": _LIMIT,
    "monitoring.log_days": in_place("older log lines are deleted"),
    "monitoring.dashboard": in_place("the dashboard is created or deleted"),
    "monitoring.alarm_email": in_place("AWS asks the new address to confirm"),
    "monitoring.prometheus": in_place("applies to the head node, and to nodes that boot from now on; samples stay"),
    "monitoring.retention_days": in_place("older samples are deleted"),
    "monitoring.scrape_from": in_place("applies to the ports at once; to nodes that boot from now on"),
    "budget": rules.budget,
    "budget.monthly_usd": rules.budget,
    "budget.email": rules.budget,
    "budget.at_limit": rules.budget,
    "security.kms_key_arn": refused("AWS cannot change the key of a volume or file system", NEW_CLUSTER),
    "security.permissions_boundary_arn": in_place("roles keep their names; the boundary applies at once"),
    "sagemaker": _TRAINING,
    **{f"sagemaker.{key}": _TRAINING for key in SageMaker.model_fields},
    **{f"security.policies.{role}": in_place("applies at once, to running nodes too") for role in ("head", "nodes")},
    "security.policies.jobs": in_place("applies to running and future jobs"),
    "security.role_prefix": refused("IAM cannot rename a role, and running nodes use theirs", NEW_CLUSTER),
    "silence": nothing("changes only what `validate` reports"),
}
