from __future__ import annotations

from validator_cases.case import Case, Keys, storage

LINK: Keys = {"path": "/a", "s3": "s3://bucket/a", "import": ["new"]}
OTHER: Keys = {**LINK, "s3": "s3://bucket/b"}
OF_JOBS: Keys = {"lifetime": "jobs", "deployment": "scratch-2"}


def linked(*links: Keys, **keys: object) -> Keys:
    return storage("fsx-lustre", data_repositories=list(links), **keys)


def numbered(count: int) -> list[Keys]:
    return [{**LINK, "path": f"/{number}", "s3": f"s3://bucket/{number}"} for number in range(count)]


CASES: dict[str, Case | list[Case]] = {
    "fsx-scratch-1-has-no-links": Case(
        fails=linked(LINK, deployment="scratch-1"),
        key="storage[0].data_repositories",
        says="scratch-1 cannot be linked to S3",
        passes=linked(LINK, deployment="scratch-2"),
    ),
    "fsx-links-apart": [
        Case(
            fails=linked({**LINK, "path": "/data"}, {**LINK, "path": "/data/part", "s3": "s3://bucket/b"}),
            key="storage[0].data_repositories[1].path",
            says="/data/part overlaps /data",
            passes=linked({**LINK, "path": "/data"}, {**LINK, "path": "/database", "s3": "s3://bucket/b"}),
        ),
        Case(
            fails=linked({**LINK, "path": "/"}, {**LINK, "path": "/b", "s3": "s3://bucket/b"}),
            key="storage[0].data_repositories[1].path",
            says="/b overlaps /",
            passes=linked({**LINK, "path": "/"}),
        ),
    ],
    "fsx-links-have-own-names": [
        Case(
            fails=linked({**LINK, "path": first}, {**OTHER, "path": second}),
            key="storage[0].data_repositories[1].path",
            says=f"{second} is too similar to {first}: both would get the ID {both}",
            passes=passes,
        )
        for first, second, both, passes in (
            ("/imagenet/21k", "/imagenet-21k", "RepositoryImagenet21k", linked(LINK)),
            ("/a.b/", "/A-b", "RepositoryAB", linked({**LINK, "path": "/a.b"}, {**OTHER, "path": "/ab"})),
            ("/a.b", "/a-b", "RepositoryAB", linked({**LINK, "path": "/a.b"}, {**OTHER, "path": "/a-b"}, **OF_JOBS)),
        )
    ],
    "fsx-linked-has-no-backups": Case(
        fails=linked(LINK, backup_days=7),
        key="storage[0].backup_days",
        says="a file system with data_repositories has no backups",
        passes=linked(LINK),
    ),
    "fsx-links-count": Case(
        fails=linked(*numbered(9)),
        key="storage[0].data_repositories",
        says="at most 8 on one file system, got 9",
        passes=linked(*numbered(8)),
    ),
    "fsx-links-differ": Case(
        fails=linked(LINK, {**LINK, "path": "/b", "s3": "s3://bucket/a/"}),
        key="storage[0].data_repositories[1].s3",
        says="s3://bucket/a/ is already linked by data_repositories[0]",
        passes=linked(LINK, {**LINK, "path": "/b", "s3": "s3://bucket/b"}),
    ),
    "s3-bucket-name": [
        Case(
            fails=linked({**LINK, "s3": "s3://192.168.5.4/a"}),
            key="storage[0].data_repositories[0].s3",
            says="no bucket can be called 192.168.5.4: it looks like an IP address",
            passes=linked({**LINK, "s3": "s3://192.168.5.four/a"}),
        ),
        Case(
            fails=linked({**LINK, "s3": "s3://data--use1-az4--x-s3/a"}),
            key="storage[0].data_repositories[0].s3",
            says="no bucket can be called data--use1-az4--x-s3: it ends in --x-s3, which S3 reserves",
            passes=linked(LINK),
        ),
    ],
    "s3-prefix-length": Case(
        fails=linked({**LINK, "s3": "s3://bucket/" + "a" * 1024}),
        key="storage[0].data_repositories[0].s3",
        says="the prefix has 1025 bytes, and a whole key at most 1024",
        passes=linked({**LINK, "s3": "s3://bucket/" + "a" * 1000}),
    ),
    "fsx-link-path-length": Case(
        fails=linked({**LINK, "path": "/" + "a" * 4096}),
        key="storage[0].data_repositories[0].path",
        says="must have at most 4096 characters, got 4097",
        passes=linked({**LINK, "path": "/" + "a" * 4095}),
    ),
    "fsx-link-path-plain": Case(
        fails=linked({**LINK, "path": "/a/../b"}),
        key="storage[0].data_repositories[0].path",
        says="must not contain //, . or .., got '/a/../b'",
        passes=linked({**LINK, "path": "/a/b..c"}),
    ),
    "fsx-link-events-once": Case(
        fails=linked({**LINK, "import": ["new", "changed", "new"]}),
        key="storage[0].data_repositories[0].import[2]",
        says="new is already in the list",
        passes=linked({**LINK, "import": ["new", "changed", "deleted"]}),
    ),
}
