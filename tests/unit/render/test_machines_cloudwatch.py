"""The CloudWatch agent's stand-in: the lines that it sends, and their dimensions."""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpucluster import config
from gpucluster.render import watching

PROGRAM = Path(__file__).resolve().parents[3] / "localcloud/machines/guest/usr/lib/localcloud/cloudwatch-agent"
TEXT = "{name: Mine, region: us-east-1, partitions: [{name: a, instance_types: [g5.xlarge], max_nodes: 1}]}"


@pytest.fixture(scope="module")
def agent() -> ModuleType:
    """Not imported: nothing may be written beside the image's files."""
    module = ModuleType("cloudwatch_agent")
    exec(compile(PROGRAM.read_text(), str(PROGRAM), "exec"), module.__dict__)
    return module


def test_whole_lines_are_sent_and_the_rest_waits(agent: ModuleType) -> None:
    file = io.BytesIO(b"one\ntwo\r\nthr")
    assert list(agent._batches(file)) == [["one", "two"]]
    assert file.tell() == len(b"one\ntwo\r\n")


def test_much_is_sent_in_several_calls(agent: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "EVENTS_PER_CALL", 2)
    assert list(agent._batches(io.BytesIO(b"1\n2\n3\n"))) == [["1", "2"], ["3"]]


def test_a_pattern_follows_all_files_only_on_request(agent: ModuleType, tmp_path: Path) -> None:
    for name in ("1.txt", "2.txt"):
        (tmp_path / name).write_text(name)
    entry = {"file_path": str(tmp_path / "*.txt")}
    assert len(agent._files(entry)) == 1
    assert len(agent._files(entry | {"publish_multi_logs": True})) == 2


@pytest.mark.parametrize(
    ("role", "name", "own", "sent"),
    [
        ("head", "disk", {"path": "/home", "fstype": "ext4"}, [{"Node": "head", "path": "/home"}]),
        ("head", "mem", {}, [{"Node": "head"}]),
        ("head", "cpu", {"cpu": "cpu-total"}, [{"cpu": "cpu-total", "Node": "head"}]),
        ("compute", "mem", {}, [{"Node": "head"}, {"InstanceId": "i-1"}]),
        ("compute", "disk", {"path": "/", "fstype": "ext4"}, [{"Node": "head"}, {"InstanceId": "i-1"}]),
    ],
)
def test_dimensions(
    agent: ModuleType, role: watching.Role, name: str, own: dict[str, str], sent: list[dict[str, str]]
) -> None:
    metrics: dict[str, Any] = watching.agent(config.loads(TEXT), role)["metrics"]
    meter = agent.Meter(None, metrics, "i-1")
    settings = metrics["metrics_collected"][name]
    dimensions = own | {"Node": "head"} | meter._appended
    measured = f"{name}_{settings['measurement'][0]}"
    assert list(meter._sent(measured, dimensions, settings)) == sent


@pytest.mark.parametrize("role", ["head", "compute"])
def test_it_accepts_what_nodes_get(agent: ModuleType, role: watching.Role) -> None:
    agent.check(watching.agent(config.loads(TEXT), role))


def test_it_refuses_a_file_without_a_group(agent: ModuleType) -> None:
    with pytest.raises(KeyError):
        agent.check({"logs": {"logs_collected": {"files": {"collect_list": [{"file_path": "/x"}]}}}})
