"""Where the seconds of a job went. The records are those of sacct, the head node and the job on booted nodes (Slurm
24.11): job 2 waited for the job that built its environment, then for its second node, and was requeued after its end.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpucluster.following import lives, timeline
from gpucluster.following.timeline import Span
from gpucluster_job.task.phases import END

T = 1795941000
RECORDS = """
2|ubuntu|train|REQUEUED|1795941335|1795941403|1795941431|1795941486|train-[1-2]|96|billing=96,cpu=96,gres/gpu=8,node=2
2|ubuntu|train|RUNNING|1795941486|1795941491|1795941519|Unknown|train-[2-3]|96|billing=96,cpu=96,gres/gpu=8,node=2
"""
INSTANCES = {"train-1": T + 336, "train-2": T + 404, "train-3": T + 493}
PHASES = [
    (0, "start", 435.0), (0, "preflight", 435.1), (0, "packages", 435.2), (0, "data", 437.2), (0, "containers", 437.3),
    (0, "preflight", 437.3), (0, "running", 440.0), (0, "export", 442.0), (0, "ending", 442.0), (0, END, 443.0),
    (1, "start", 523.0), (1, "running", 524.0),
]  # fmt: skip


def found(of_job: list[Any], **changed: Any) -> lives.Records:
    life = {"type": "g5.12xlarge", "purchase": "on-demand", "seen": T + 600.0}
    raw = {
        "now": T + 600.0,
        "recorded_since": T + 322.4,
        "refused": "",
        "records": [line.split("|") for line in RECORDS.strip().splitlines()],
        "names": {"2": "two"},
        "waits": {},
        "lives": [life | {"instance": f"i-{n}", "node": n, "launched": at} for n, at in INSTANCES.items()],
        "phases": [{"job": "2", "run": run, "name": name, "time_s": T + at} for run, name, at in of_job],
        "result": {},
        "started": "",
    }
    return lives.parse(raw | changed)


def shown(spans: list[Span]) -> list[tuple[str, float, float | None]]:
    return [(each.name, round(each.start_s - T, 1), each.end_s and round(each.end_s - T, 1)) for each in spans]


def test_each_second_of_a_job_and_its_second_run_has_a_name() -> None:
    assert shown(timeline.spans(found(PHASES))) == [
        ("waiting", 335, 403), ("queued", 403, 404), ("booting", 404, 431), ("prolog", 431, 435),
        ("packages", 435.2, 437.2), ("preflight", 437.3, 440), ("running", 440, 442), ("ending", 442, 443),
        ("epilog", 443, 486),
        ("waiting", 486, 491), ("queued", 491, 493), ("booting", 493, 519), ("prolog", 519, 523),
        ("start", 523, 524), ("running", 524, None),
    ]  # fmt: skip


def test_a_run_that_was_killed_ends_when_slurm_says_so() -> None:
    cut = [each for each in PHASES if each[0] == 1 or each[2] <= 440]
    assert ("running", 440, 486) in shown(timeline.spans(found(cut)))


def test_a_job_of_an_earlier_version_has_what_its_result_says() -> None:
    result = {"started_at": "2026-11-29T08:37:15Z", "ended_at": "2026-11-29T08:37:22Z"}
    spans = shown(timeline.spans(found([], records=[], refused="no sacct", result=result)))
    assert spans == [("running", 435, 442)]
    whole = shown(timeline.spans(found([], result=result)))
    assert ("prolog", 431, 435) in whole
    assert ("epilog", 442, 486) in whole


def test_a_pending_job_waits_and_a_cancelled_one_has_no_run() -> None:
    pending = [RECORDS.strip().splitlines()[0].split("|")]
    pending[0][3:9] = ["PENDING", f"{T + 335}", "Unknown", "Unknown", "Unknown", "None assigned"]
    assert shown(timeline.spans(found([], records=pending))) == [("queued", 335, None)]
    pending[0][3:9] = ["CANCELLED by 1000", f"{T + 335}", f"{T + 335}", "None", f"{T + 340}", "None assigned"]
    assert shown(timeline.spans(found([], records=pending))) == [("queued", 335, 340)]


@pytest.mark.parametrize(
    "line",
    [{"job": "2"}, {"name": "running", "time_s": "now"}, {"name": [], "time_s": 1.0}, {"name": "end", "time_s": T}],
)
def test_what_a_user_wrote_into_the_file_is_left_out(line: Any) -> None:
    assert shown(timeline.spans(found([], records=[], phases=[line]))) == []
