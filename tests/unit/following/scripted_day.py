"""A scripted day of jobs, and a table of its costs that was computed by hand.

The day is 31 October 2026 and the first hours of November: a month ends in it, and summer time in New York, where
01:00 to 02:00 comes twice, at 05:00 and 06:00 UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gpucluster import config
from gpucluster.following import lives

TEXT = """
name: Mine
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 8}
  - {name: cheap, instance_types: [g5.xlarge], max_nodes: 4, purchase: spot}
  - {name: always, instance_types: [g5.xlarge], min_nodes: 1, max_nodes: 1}
  - {name: new, instance_types: [p5e.48xlarge], max_nodes: 1}
  - name: block
    instance_types: [p5.48xlarge]
    max_nodes: 1
    purchase: capacity-block
    reservation_id: cr-0123456789abcdef0
    placement_group: none
"""
CLUSTER = config.loads(TEXT)
AN_HOUR = {"g5.12xlarge": 6.00, "g5.xlarge": 1.20, "m6i.2xlarge": 0.40}
"""10 cents and 2 cents a minute; the head node's 40 cents an hour."""


def at(text: str) -> float:
    """`31 22:05`: of October; `1 00:10`: of November."""
    day, time = text.split()
    month = 10 if int(day) > 1 else 11
    return datetime.fromisoformat(f"2026-{month}-{int(day):02}T{time}:00+00:00").timestamp()


SINCE, UNTIL, NOW = at("31 00:00"), at("1 23:00"), at("1 06:00")

LIVES = """
train-1   g5.12xlarge  on-demand       31 22:00  31 23:30
train-2   g5.12xlarge  on-demand       31 22:00  1 00:40
train-3   g5.12xlarge  on-demand       31 09:00  31 09:10
train-4   g5.12xlarge  on-demand       31 15:00  31 15:10
train-1   g5.12xlarge  on-demand       1 05:00   1 06:00
cheap-1   g5.xlarge    spot            31 20:00  31 20:50
cheap-1   g5.xlarge    spot            31 21:00  31 22:00
cheap-2   g5.xlarge    spot            1 05:00   1 06:00
always-1  g5.xlarge    on-demand       30 00:00  1 06:00
new-1     p5e.48xlarge on-demand       31 10:00  31 11:00
block-1   p5.48xlarge  capacity-block  31 08:00  31 10:00
head      m6i.2xlarge  on-demand       30 12:00  1 06:00
"""

# As sacct prints the fields of node_hours.FIELDS (Slurm 24.11), but without Eligible, and with times for people.
JOBS = """
10|alice|train|COMPLETED|31 22:00|31 22:05|31 23:00|train-1|48|billing=48,cpu=48,gres/gpu=4,node=1
11_0|bob|train|COMPLETED|31 22:00|31 22:10|31 22:40|train-2|12|billing=12,cpu=12,gres/gpu=1,node=1
11_1|bob|train|COMPLETED|31 22:00|31 22:10|31 23:10|train-2|12|billing=12,cpu=12,gres/gpu=1,node=1
12|alice|train|COMPLETED|31 22:00|31 22:40|1 00:10|train-2|24|billing=24,cpu=24,gres/gpu=2,node=1
13|carol|cheap|NODE_FAIL|31 20:00|31 20:05|31 20:50|cheap-1|4|billing=4,cpu=4,gres/gpu=1,node=1
13|carol|cheap|COMPLETED|31 20:50|31 21:05|31 21:45|cheap-1|4|billing=4,cpu=4,gres/gpu=1,node=1
14|bob|always|FAILED|31 12:00|31 12:00|31 13:00|always-1|4|billing=4,cpu=4,gres/gpu=1,node=1
15|bob|new|COMPLETED|31 10:00|31 10:00|31 11:00|new-1|192|billing=192,cpu=192,gres/gpu=8,node=1
16+0|carol|train|RUNNING|1 05:00|1 05:00|Unknown|train-1|48|billing=48,cpu=48,gres/gpu=4,node=1
16+1|carol|cheap|RUNNING|1 05:00|1 05:00|Unknown|cheap-2|4|billing=4,cpu=4,node=1
17|bob|block|COMPLETED|31 08:00|31 08:00|31 10:00|block-1|192|billing=192,cpu=192,gres/gpu=8,node=1
18|bob|train|PENDING|31 08:00|Unknown|Unknown|None assigned|0|
19|bob|train|CANCELLED by 1000|31 08:00|None|31 08:01|None assigned|0|
20|alice|train|COMPLETED|31 15:00|31 15:00|31 15:10|train-4|12|billing=12,cpu=12,gres/gpu=1,node=1
21|bob|train|COMPLETED|31 15:00|31 15:00|31 15:10|train-4|12|billing=12,cpu=12,gres/gpu=1,node=1
22|carol|train|COMPLETED|31 15:00|31 15:00|31 15:10|train-4|12|billing=12,cpu=12,gres/gpu=1,node=1
"""
NAMES = {"10": "base", "11_0": "lr", "11_1": "lr", "12": "half", "13": "spot", "14": "eval", "20": "base"}

BY_JOB = [
    # key, USD, of these: idle, failed, waiting
    ("10", 9.00, 3.50, 0.00, 0.00),  # 90 minutes: 5 of boot, 55 of use, 30 until the end
    ("11", 5.00, 1.00, 0.00, 0.00),  # 11_0: .50 + 1.50; 11_1: .50 + 1.50 + 1.00 beside 12
    ("12", 11.00, 3.00, 0.00, 0.00),  # 2.00 beside 11_1, 6.00 alone, 3.00 until the node's end
    ("13", 2.20, 0.50, 1.00, 0.20),  # 50 minutes lost; 60 minutes, of whose 40 of use a quarter waited
    ("14", 1.20, 0.00, 1.20, 0.00),
    ("15", 0.00, 0.00, 0.00, 0.00),  # and an hour of a type without a price
    ("16", 7.20, 0.00, 0.00, 0.00),  # an hour of both of its nodes
    ("17", 0.00, 0.00, 0.00, 0.00),  # paid in advance
    ("20", 0.34, 0.00, 0.00, 0.00),  # a dollar for three
    ("21", 0.33, 0.00, 0.00, 0.00),
    ("22", 0.33, 0.00, 0.00, 0.00),
    ("(always-on nodes without a job)", 34.80, 34.80, 0.00, 0.00),  # 30 hours without the hour of job 14
    ("(head node)", 12.00, 0.00, 0.00, 0.00),
    ("(nodes that no job used)", 1.00, 1.00, 0.00, 0.00),
]
TOTAL = 84.40


def epoch(text: str) -> str:
    return str(int(at(text))) if text[0].isdigit() else text


def found(**changed: Any) -> lives.Records:
    records = [line.split("|") for line in JOBS.strip().splitlines()]
    records = [[*row[:4], *map(epoch, [row[4], *row[4:7]]), *row[7:]] for row in records]
    running = []
    for number, line in enumerate(LIVES.strip().splitlines()):
        node, kind, purchase, *times = line.split()
        begin, end = at(" ".join(times[:2])), at(" ".join(times[2:]))
        running.append(
            {
                "instance": f"i-{number}",
                "node": node,
                "type": kind,
                "purchase": purchase,
                "launched": begin,
                "seen": end,
            }
        )
    raw = {"now": NOW, "recorded_since": at("30 00:00"), "refused": "", "waits": {"13": 25.0}}
    return lives.parse({**raw, "records": records, "lives": running, "names": NAMES, **changed})
