from __future__ import annotations

from validator_cases.case import PARTITION, Case, cluster, partition


def named(*names: str) -> dict[str, object]:
    return cluster(partitions=[{**PARTITION, "name": name} for name in names])


CASES = {
    "cluster-name-not-bootstrap": Case(
        fails=cluster(name="CDKToolkit"),
        key="name",
        says="CDKToolkit is the stack that every deployment needs: it would be replaced",
        passes=cluster(name="Toolkit"),
    ),
    "cluster-name-not-ec2-domain": Case(
        fails=cluster(name="EC2"),
        key="name",
        says="ec2.internal is EC2's own domain: EC2's names would no longer resolve",
        passes=cluster(name="ec2-cluster"),
    ),
    "partition-name-unique": Case(
        fails=named("train", "train"),
        key="partitions[1].name",
        says="'train' is already the name of partitions[0]",
        passes=named("train", "other"),
    ),
    "partition-name-distinct": Case(
        fails=named("a1b", "a-1b"),
        key="partitions[1].name",
        says="'a-1b' and 'a1b' differ only in hyphens: their IDs collide",
        passes=named("ab", "a-b"),
    ),
    "partition-name-free": Case(
        fails=partition(name="default"),
        key="partitions[0].name",
        says="'default' is reserved: it is Slurm's word for the settings of all partitions",
        passes=partition(name="defaults"),
    ),
}
