from __future__ import annotations

from typing import Any

from validator_cases.case import cluster, partition, storage

from online_cases.case import Answers, Online

SCRIPT = "s3://bucket/a.sh"
SCRIPTED = partition(scripts=[{"source": SCRIPT, "sha256": "a" * 64}])
LINKED = storage("fsx-lustre", data_repositories=[{"path": "/a", "s3": "s3://bucket/a", "import": ["new"]}])
ACCESSED = cluster(s3_access=[{"uri": "s3://bucket/a"}])
CACHED = cluster(software={"cache": "s3://bucket/a"})
CLOSED = {"network": {"internet": "none"}, "software": {"image": "ami-0123456789abcdef0"}}


def in_memory(**keys: str) -> dict[str, Any]:
    """The jobs' buckets must also be in s3_access, unless that check is silenced."""
    silence = ["beegfs-jobs-may-copy"]
    return {**storage("beegfs-ram", partition="train", gib_per_node=150, scope="job", **keys), "silence": silence}


def bucket(region: str) -> Answers:
    return {"s3 head_bucket": {"BucketRegion": region}}


def objects(sizes: dict[str, int]) -> Answers:
    return {"s3 list_objects_v2": {"Contents": [{"Key": key, "Size": size} for key, size in sizes.items()]}}


HERE, ABROAD = bucket("us-east-1"), bucket("eu-west-1")


def tags(*keys: str) -> Answers:
    found = [{"TagKey": key, "Type": "UserDefined", "Status": "Active"} for key in keys]
    return {"ce list_cost_allocation_tags": {"CostAllocationTags": found}}


CASES: dict[str, Online | list[Online]] = {
    "bucket-exists": [
        Online(keys, key=key, says="the bucket bucket does not exist", fails={"s3 head_bucket": "404"}, passes=HERE)
        for keys, key in (
            (LINKED, "storage[0].data_repositories[0].s3"),
            (ACCESSED, "s3_access[0].uri"),
            (CACHED, "software.cache"),
            (in_memory(source="s3://bucket/a"), "storage[0].source"),
            (in_memory(export="s3://bucket/a"), "storage[0].export"),
            (SCRIPTED, "partitions[0].scripts[0].source"),
        )
    ],
    "bucket-in-region": [
        Online(
            SCRIPTED,
            key="partitions[0].scripts[0].source",
            says="bucket is in eu-west-1, and nodes read scripts only from buckets in us-east-1",
            fails=ABROAD,
            passes=HERE,
        ),
        Online(
            LINKED,
            key="storage[0].data_repositories[0].s3",
            says="bucket is in eu-west-1, and a file system in us-east-1 imports only from its own region",
            fails=ABROAD,
            passes=HERE,
        ),
        *(
            Online(
                {**keys, **CLOSED, "software": {**CLOSED["software"], **keys.get("software", {})}},
                key=key,
                says="bucket is in eu-west-1, and with network.internet: none nodes reach only buckets in us-east-1",
                fails=ABROAD,
                passes=HERE,
            )
            for keys, key in (
                (ACCESSED, "s3_access[0].uri"),
                (CACHED, "software.cache"),
                (in_memory(export="s3://bucket/a"), "storage[0].export"),
            )
        ),
    ],
    "script-object-exists": [
        Online(
            SCRIPTED,
            key="partitions[0].scripts[0].source",
            says="s3://bucket/a.sh does not exist",
            fails=objects({"a.sh.old": 10}),
            passes=objects({"a.sh": 10, "a.sh.old": 10}),
        ),
        Online(
            SCRIPTED,
            key="partitions[0].scripts[0].source",
            says="s3://bucket/a.sh has 1048577 bytes, and a script may have 1048576",
            fails=objects({"a.sh": 1048577}),
            passes={"s3 list_objects_v2": "NoSuchBucket"},
        ),
    ],
    "budgets-open": Online(
        cluster(budget={"monthly_usd": 5000, "email": "a@example.org"}),
        key="budget",
        says="could not be checked: budgets DescribeBudgets: AccessDeniedException",
        fails={"budgets describe_budgets": "AccessDeniedException"},
        passes={"budgets describe_budgets": {"Budgets": []}},
    ),
    "budget-tag-active": Online(
        cluster(budget={"monthly_usd": 5000, "email": "a@example.org"}),
        key="budget",
        says="counts nothing yet: gpucluster:cluster is not an active cost allocation tag",
        fails=tags(),
        passes=tags("gpucluster:cluster"),
    ),
}
