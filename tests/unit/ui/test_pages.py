"""What the page shows of a recorded cluster, and that text of users is never HTML."""

from __future__ import annotations

import http.client
import json
import time
from html.parser import HTMLParser

import pytest

from gpucluster.errors import RemoteError
from tests.recorded_cluster import AWAY, FAILED, HANGS, HOSTILE, RUNNING, SWEEP
from tests.served_page import Browser

PARTS = ["cluster", "jobs", "bench", "storage", "money"]
JOB_PARTS = ["summary", "why", "log", "sweep", "result", "script"]


class Tags(HTMLParser):
    """The names of all tags, and their attributes that run code or load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.risky: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.risky += [each for each in attrs if each[0].startswith("on") or each[0] in ("src", "style")]


@pytest.mark.parametrize("path", [*(f"/parts/{part}" for part in PARTS), "/parts/jobs?words=alert&page=1"])
@pytest.mark.parametrize("query", ["&name=<b>&words=<b>\"'&page=-1", "&kind=<b>&page=99999999999&days=x"])
def test_text_of_users_is_no_html(browser: Browser, path: str, query: str) -> None:
    answer = browser.ask(path + ("&" if "?" in path else "?") + query.replace("<", "%3C").replace('"', "%22"))
    assert answer.status == 200
    found = Tags(answer.text)
    assert not found.names & {"script", "img", "b1"} and not found.risky
    assert "<script>" not in answer.text


@pytest.mark.parametrize("job_id", [RUNNING, HANGS, FAILED, SWEEP, "12_3"])
@pytest.mark.parametrize("part", JOB_PARTS)
def test_no_part_of_a_job_is_html_of_its_user(browser: Browser, job_id: str, part: str) -> None:
    answer = browser.ask(f"/jobs/{job_id}/parts/{part}")
    assert answer.status == 200
    found = Tags(answer.text)
    assert not found.names & {"script", "img"} and not found.risky


@pytest.mark.parametrize(
    "path", ["/", *(f"/{part}" for part in PARTS[1:]), f"/jobs/{HANGS}", f"/jobs/{HANGS}/code/a%3Fb%23c.py"]
)
def test_a_whole_page_loads_only_its_own_assets(browser: Browser, path: str) -> None:
    for known in (False, True):  # before and after the cluster has been read
        answer = browser.ask(path)
        assert answer.status == 200
        assert all(value and value.startswith("/assets/") for name, value in Tags(answer.text).risky), known
        assert "http://" not in answer.text and "https://" not in answer.text
        for part in PARTS:
            browser.ask(f"/parts/{part}")


def test_the_cluster_is_a_heat_map(browser: Browser) -> None:
    text = browser.ask("/parts/cluster").text
    assert text.count('id="node-train-') == 64
    assert text.count('<i class="h') >= 53 * 8
    assert "train-12 GPU 0: 2 %, 31 of 40 GiB" in text and "slowed by heat" in text
    assert "GPU 3 has fallen off the bus" in text
    assert "$1,835.12" in text


def test_a_page_of_the_history_has_fifty_rows(browser: Browser) -> None:
    text = browser.ask("/parts/jobs").text
    assert (text.count("<tr id="), "page 1 of 100" in text) == (50, True)
    last = browser.ask("/parts/jobs?page=100").text
    assert 'href="/jobs/1"' in last and "older →" not in last
    few = browser.ask("/parts/jobs?words=lr-sweep+ana").text
    assert "0 jobs" in few or few.count("<tr id=") <= 1
    assert browser.ask("/parts/jobs?words=lr-sweep").text.count("<tr id=") == 1
    assert "completed" not in browser.ask("/parts/jobs?kind=failed").text.partition("<tbody>")[2]


def test_a_sweep_is_parallel_coordinates(browser: Browser) -> None:
    text = browser.ask(f"/jobs/{SWEEP}/parts/sweep").text
    assert text.count('<path class="line') == 12
    for name in ("lr", "batch", "optimizer", "accuracy", "loss"):
        assert f">{name}</text>" in text
    assert "data-array" in browser.ask(f"/jobs/{SWEEP}/parts/summary").text


def test_runs_of_bench_are_plots(browser: Browser) -> None:
    text = browser.ask("/parts/bench").text
    assert text.count("<svg") == 2 and text.count("<circle") == 2 * 10
    assert "efficiency" in text and "torchrun, 128 ranks: " in text


def test_the_log_is_what_the_form_asks_for(browser: Browser) -> None:
    text = browser.ask(f"/jobs/{RUNNING}/parts/log?rank=3&node=train-2&grep=step&tail=100").text
    assert text.count("[3 train-1] step ") == 100
    asked = browser.source.asked[-1]
    assert (asked.rank, asked.node, asked.grep, asked.tail) == (3, "train-2", "step", 100)
    browser.ask(f"/jobs/{RUNNING}/parts/log?rank=x&tail=999999&node=&grep=")
    asked = browser.source.asked[-1]
    assert (asked.rank, asked.node, asked.grep, asked.tail) == (None, None, None, 5000)
    plain = browser.ask(f"/jobs/{RUNNING}/parts/log").text
    assert "\x1b" not in plain and "[0 train-1] 100%|#####|" in plain and " 10%|" not in plain
    assert "(a line of 10,012 characters)" in plain


def test_curves_are_json_without_nan(browser: Browser) -> None:
    found = json.loads(browser.ask(f"/jobs/{RUNNING}/curves").text)
    by_title = {chart["title"]: chart for chart in found["charts"]}
    assert {"loss", HOSTILE, "GPU utilization", "CPU"} <= by_title.keys()
    assert None in by_title[HOSTILE]["lines"][0]["y"]
    assert [line["name"] for line in by_title["GPU utilization"]["lines"]] == [
        "lowest of 256",
        "mean of 256",
        "highest of 256",
    ]
    one = json.loads(browser.ask(f"/jobs/{RUNNING}/curves?node=train-2").text)
    names = {chart["title"]: [line["name"] for line in chart["lines"]] for chart in one["charts"]}
    assert names["GPU utilization"] == [f"train-2 GPU {gpu}" for gpu in range(8)]


@pytest.mark.parametrize(
    "path", ["/jobs/x", "/jobs/1%27", "/jobs/../etc", "/jobs/1/parts/nothing", "/parts/nothing", "/nothing"]
)
def test_an_unknown_address_is_a_page_that_says_so(browser: Browser, path: str) -> None:
    answer = browser.ask(path)
    assert (answer.status, "Not here" in answer.text) == (404, True)


def test_a_head_node_that_is_away_leaves_what_was_known(browser: Browser) -> None:
    browser.ask("/parts/storage")
    before = browser.ask("/parts/cluster").text
    browser.source.problem = AWAY
    unknown = browser.ask("/parts/jobs")
    assert (unknown.status, AWAY.message in unknown.text) == (200, True)
    forget_times(browser)
    text = browser.ask("/parts/cluster").text
    assert AWAY.message in text and "this is what was known at" in text and AWAY.hint in text
    assert text.count('id="node-') == before.count('id="node-')
    browser.source.problem = None
    forget_times(browser)
    assert AWAY.message not in browser.ask("/parts/cluster").text


def forget_times(browser: Browser) -> None:
    """As if a minute had passed."""
    for place in browser.answers._places.values():
        place.asked_s -= 60


@pytest.mark.parametrize("part", JOB_PARTS)
def test_each_part_says_what_it_lacks(browser: Browser, part: str) -> None:
    browser.source.problem = RemoteError("the head node is away")
    answer = browser.ask(f"/jobs/12/parts/{part}")
    assert (answer.status, "the head node is away" in answer.text) == (200, True)


def test_a_cluster_without_samples_says_so(browser: Browser) -> None:
    browser.source.without_samples = True
    text = browser.ask("/parts/cluster").text
    assert "this cluster has no samples" in text and 'class="none"' in text
    found = json.loads(browser.ask(f"/jobs/{RUNNING}/curves").text)
    assert [chart["title"] for chart in found["charts"]][:2] == ["loss", "images/s"]
    assert "has no samples" in found["lacks"][0]


def test_a_job_without_a_log_says_so(browser: Browser) -> None:
    assert "job 17 has no log" in browser.ask("/jobs/17/parts/log").text
    assert "there is no job 99999" in browser.ask("/jobs/99999/parts/summary").text


def test_a_bug_in_one_part_leaves_the_others(browser: Browser) -> None:
    browser.source.problem = KeyError("<b>")
    answer = browser.ask("/parts/storage")
    assert answer.status == 500 and "unexpected KeyError: &#39;&lt;b&gt;&#39;" in answer.text
    browser.source.problem = None
    assert browser.ask("/parts/storage").status == 200


def test_many_tabs_are_one_call(browser: Browser) -> None:
    began = time.monotonic()
    for _ in range(10):
        browser.ask("/parts/cluster")
        browser.ask("/")
    assert browser.source.calls <= 1 + (time.monotonic() - began) // 4


def test_the_stream_beats_with_age_and_problem(browser: Browser) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", browser.port, timeout=20)
    connection.request("GET", "/beats", headers={"Cookie": browser.cookie})
    answer = connection.getresponse()
    assert answer.getheader("content-type", "").startswith("text/event-stream")
    lines = [answer.readline().decode().strip() for _ in range(12)]
    connection.close()
    beats = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert len(beats) >= 2 and all(beat["problem"] == "" and beat["age_s"] < 60 for beat in beats)
