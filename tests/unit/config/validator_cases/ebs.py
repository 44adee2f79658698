from __future__ import annotations

from validator_cases.case import Case, Keys, cluster, storage

ID = "vol-0123456789abcdef0"


def several(count: int, **keys: str) -> Keys:
    return cluster(storage=[{"mount": f"/data{number}", "type": "ebs", **keys} for number in range(count)])


CASES: dict[str, Case | list[Case]] = {
    "ebs-size": [
        Case(
            fails=storage("ebs", gib=65537),
            key="storage[0].gib",
            says="must be 1 to 65536 for gp3, got 65537",
            passes=storage("ebs", gib=65536),
        ),
        Case(
            fails=storage("ebs", volume_type="st1"),
            key="storage[0].volume_type",
            says="st1 needs gib: 125 to 16384, and the default is 100",
            passes=storage("ebs", volume_type="st1", gib=125),
        ),
    ],
    "ebs-iops": [
        Case(
            fails=storage("ebs", iops=2000),
            key="storage[0].iops",
            says="must be 3000 to 80000 for gp3, got 2000",
            passes=storage("ebs", iops=3000),
        ),
        Case(
            fails=storage("ebs", iops=6000, gib=10),
            key="storage[0].iops",
            says="10 GiB of gp3 have at most 5000 IOPS, got 6000",
            passes=storage("ebs", iops=6000, gib=12),
        ),
        Case(
            fails=storage("ebs", iops=501, gib=10, volume_type="io1"),
            key="storage[0].iops",
            says="10 GiB of io1 have at most 500 IOPS, got 501",
            passes=storage("ebs", iops=3000, gib=4),
        ),
        Case(
            fails=storage("ebs", volume_type="io2"),
            key="storage[0].volume_type",
            says="io2 needs iops: 100 to 256000",
            passes=storage("ebs", volume_type="io2", iops=100),
        ),
        Case(
            fails=storage("ebs", volume_type="gp2", iops=3000),
            key="storage[0].iops",
            says="not allowed for gp2",
            passes=storage("ebs", volume_type="gp2"),
        ),
    ],
    "ebs-throughput": [
        Case(
            fails=storage("ebs", throughput_mibps=2001, iops=80000, gib=1000),
            key="storage[0].throughput_mibps",
            says="must be 125 to 2000, got 2001",
            passes=storage("ebs", throughput_mibps=2000, iops=80000, gib=1000),
        ),
        Case(
            fails=storage("ebs", throughput_mibps=1000),
            key="storage[0].throughput_mibps",
            says="1000 MiB/s need 4000 IOPS, got 3000",
            passes=storage("ebs", throughput_mibps=1000, iops=4000),
        ),
        Case(
            fails=storage("ebs", volume_type="gp2", throughput_mibps=250),
            key="storage[0].throughput_mibps",
            says="not allowed for gp2",
            passes=storage("ebs", throughput_mibps=250),
        ),
    ],
    "ebs-volume-type": Case(
        fails=storage("ebs", volume_type="standard"),
        key="storage[0].volume_type",
        says="must be gp3, gp2, io2, io1, st1 or sc1, got 'standard'",
        passes=storage("ebs", volume_type="gp2"),
    ),
    "ebs-on-delete": Case(
        fails=storage("ebs", on_delete="keep"),
        key="storage[0].on_delete",
        says="must be delete, snapshot or retain, got 'keep'",
        passes=storage("ebs", on_delete="snapshot"),
    ),
    "ebs-exists-or-new": Case(
        fails=storage("ebs", volume_id=ID, gib=100, on_delete="retain"),
        key="storage[0].gib",
        says=f"is a key of a new volume, but volume_id names {ID}, which the cluster never changes",
        passes=storage("ebs", volume_id=ID),
        times=2,
    ),
    "ebs-mounted-once": Case(
        fails=several(2, volume_id=ID),
        key="storage[1].volume_id",
        says=f"{ID} is mounted at /data0 already",
        passes=several(1, volume_id=ID),
    ),
    "ebs-count": Case(
        fails=several(11),
        key="storage[10].type",
        says="at most 10 entries of type: ebs, got 11",
        passes=several(10),
    ),
    "ebs-volume-id-form": Case(
        fails=storage("ebs", volume_id="vol-1"),
        key="storage[0].volume_id",
        says="must be the id of an EBS volume (vol-…), got 'vol-1'",
        passes=storage("ebs", volume_id=ID),
    ),
    "home-not-on-ebs": Case(
        fails=storage("ebs", mount="/home"),
        key="storage[0].type",
        says="/home on an EBS volume is type: head-nfs",
        passes=storage("head-nfs", mount="/home"),
    ),
}
