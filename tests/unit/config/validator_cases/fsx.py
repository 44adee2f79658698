from __future__ import annotations

from validator_cases.case import Case, storage

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"

CASES: dict[str, Case | list[Case]] = {
    "fsx-capacity-step": [
        Case(
            fails=storage("fsx-lustre", capacity_gib=1300),
            key="storage[0].capacity_gib",
            says="must be 1200, 2400 or a multiple of 2400 for persistent-2, got 1300",
            passes=storage("fsx-lustre", capacity_gib=2400),
        ),
        Case(
            fails=storage("fsx-lustre", deployment="scratch-1", capacity_gib=4800),
            key="storage[0].capacity_gib",
            says="must be 1200, 2400 or a multiple of 3600 for scratch-1, got 4800",
            passes=storage("fsx-lustre", deployment="scratch-1", capacity_gib=3600),
        ),
    ],
    "fsx-throughput-tier": [
        Case(
            fails=storage("fsx-lustre", throughput_mbps_per_tib=300),
            key="storage[0].throughput_mbps_per_tib",
            says="must be 125, 250, 500 or 1000 for persistent-2, got 300",
            passes=storage("fsx-lustre", throughput_mbps_per_tib=500),
        ),
        Case(
            fails=storage("fsx-lustre", deployment="persistent-1", throughput_mbps_per_tib=250),
            key="storage[0].throughput_mbps_per_tib",
            says="must be 50, 100 or 200 for persistent-1, got 250",
            passes=storage("fsx-lustre", deployment="persistent-1", throughput_mbps_per_tib=200),
        ),
    ],
    "fsx-scratch-has-no-tier": Case(
        fails=storage("fsx-lustre", deployment="scratch-2", throughput_mbps_per_tib=200),
        key="storage[0].throughput_mbps_per_tib",
        says="not allowed for scratch-2",
        passes=storage("fsx-lustre", deployment="scratch-2"),
    ),
    "fsx-efa-needs-persistent-2": Case(
        fails=storage("fsx-lustre", deployment="persistent-1", efa=True, throughput_mbps_per_tib=200),
        key="storage[0].efa",
        says="needs deployment: persistent-2, got persistent-1",
        passes=storage("fsx-lustre", efa=True, throughput_mbps_per_tib=1000),
    ),
    "fsx-efa-capacity-step": [
        Case(
            fails=storage("fsx-lustre", efa=True, throughput_mbps_per_tib=500, capacity_gib=12000),
            key="storage[0].capacity_gib",
            says="with EFA and 500 MB/s per TiB it must be a multiple of 9600, got 12000",
            passes=storage("fsx-lustre", efa=True, throughput_mbps_per_tib=500, capacity_gib=9600),
        ),
        Case(
            fails=storage("fsx-lustre", efa=True, throughput_mbps_per_tib=125, capacity_gib=4800),
            key="storage[0].capacity_gib",
            says="with EFA and 125 MB/s per TiB it must be a multiple of 38400, got 4800",
            passes=storage("fsx-lustre", efa=True, throughput_mbps_per_tib=125, capacity_gib=38400),
        ),
    ],
    "fsx-metadata-iops-values": [
        Case(
            fails=storage("fsx-lustre", metadata_iops=5000),
            key="storage[0].metadata_iops",
            says="must be 1500, 3000, 6000, 12000 or a multiple of 12000 up to 192000, got 5000",
            passes=storage("fsx-lustre", metadata_iops=6000),
        ),
        Case(
            fails=storage("fsx-lustre", metadata_iops=200000),
            key="storage[0].metadata_iops",
            says="must be 1500, 3000, 6000, 12000 or a multiple of 12000 up to 192000, got 200000",
            passes=storage("fsx-lustre", metadata_iops=192000),
        ),
    ],
    "fsx-metadata-needs-persistent-2": Case(
        fails=storage("fsx-lustre", deployment="persistent-1", metadata_iops=6000),
        key="storage[0].metadata_iops",
        says="needs deployment: persistent-2, got persistent-1",
        passes=storage("fsx-lustre", deployment="persistent-1"),
    ),
    "fsx-backup-days": Case(
        fails=storage("fsx-lustre", backup_days=91),
        key="storage[0].backup_days",
        says="must be at most 90, got 91",
        passes=storage("fsx-lustre", backup_days=90),
    ),
    "fsx-scratch-has-no-backups": Case(
        fails=storage("fsx-lustre", deployment="scratch-2", backup_days=7),
        key="storage[0].backup_days",
        says="scratch-2 has no backups",
        passes=storage("fsx-lustre", backup_days=7),
    ),
    "fsx-region": Case(
        fails={**storage("fsx-lustre"), "region": "ap-southeast-6"},
        key="storage[0].type",
        says="CloudFormation has no FSx in ap-southeast-6",
        passes={**storage("fsx-lustre"), "region": "ap-southeast-2"},
    ),
    "fsx-china-persistent-1": Case(
        fails={**storage("fsx-lustre"), "region": "cn-north-1"},
        key="storage[0].deployment",
        says="cn-north-1 has only persistent-1, got persistent-2",
        passes={**storage("fsx-lustre", deployment="persistent-1"), "region": "cn-north-1"},
    ),
    "fsx-deployment-type": Case(
        fails=storage("fsx-lustre", deployment="persistent-3"),
        key="storage[0].deployment",
        says="must be scratch-1, scratch-2, persistent-1 or persistent-2, got 'persistent-3'",
        passes=storage("fsx-lustre", deployment="persistent-2"),
    ),
}
