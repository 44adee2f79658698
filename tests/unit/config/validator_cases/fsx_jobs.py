from __future__ import annotations

from validator_cases.case import Case, Keys, storage

LINK: Keys = {"path": "/a", "s3": "s3://bucket/a", "import": ["new"]}
EVENTS = ["new", "changed", "deleted"]


def of_jobs(**keys: object) -> Keys:
    return storage("fsx-lustre", **{"deployment": "scratch-2", "lifetime": "jobs", "data_repositories": [LINK], **keys})


def long_links(length: int) -> list[Keys]:
    """As many as a file system can have, their paths together so long."""
    of_each = length // 8 - len("/0-")
    return [
        {"path": f"/{i}-" + "a" * of_each, "s3": f"s3://bucket/{i}", "import": EVENTS, "export": EVENTS}
        for i in range(8)
    ]


def beside_ram(**keys: object) -> Keys:
    """The file system, and one in memory that is filled from it."""
    ram = {"mount": "/ram", "type": "beegfs-ram", "partition": "train", "gib_per_node": 100, "source": "/data/a"}
    lustre = of_jobs()
    partition = {**lustre["partitions"][0], "min_nodes": 2}
    return {**lustre, "partitions": [partition], "storage": [*lustre["storage"], {**ram, **keys}]}


CASES: dict[str, Case | list[Case]] = {
    "fsx-jobs-has-links": Case(
        fails=of_jobs(data_repositories=[]),
        key="storage[0].data_repositories",
        says="with lifetime: jobs, all files that jobs write would be lost with the file system",
        passes=of_jobs(),
    ),
    "fsx-jobs-is-not-kept": Case(
        fails=of_jobs(on_delete="retain"),
        key="storage[0].on_delete",
        says="with lifetime: jobs, the file system is deleted when no job uses it",
        passes=of_jobs(on_delete="delete"),
    ),
    "fsx-linked-has-no-backups": Case(
        fails=of_jobs(deployment="persistent-2", backup_days=7),
        key="storage[0].backup_days",
        says="a file system with data_repositories has no backups",
        passes=of_jobs(deployment="persistent-2"),
    ),
    "fsx-idle-in-range": [
        Case(
            fails=of_jobs(idle_minutes=0.01),
            key="storage[0].idle_minutes",
            says="must be 1/60 to 527040, got 0.01",
            passes=of_jobs(idle_minutes=0.05),
        ),
        Case(
            fails=of_jobs(idle_minutes=1e300),
            key="storage[0].idle_minutes",
            says="must be 1/60 to 527040, got 1e+300",
            passes=of_jobs(idle_minutes=527040.0),
        ),
    ],
    "fsx-jobs-fits-parameter": Case(
        fails=of_jobs(data_repositories=long_links(2000)),
        key="storage[0].data_repositories",
        says="an SSM parameter holds 4096 characters, but the request to FSx has 5138",
        passes=of_jobs(data_repositories=long_links(800)),
    ),
    "beegfs-source-stays": Case(
        fails=beside_ram(),
        key="storage[1].source",
        says="/data/a exists only while jobs use /data",
        passes=beside_ram(scope="job"),
    ),
}
