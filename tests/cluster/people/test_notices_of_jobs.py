"""A user's job that fails: its log chosen line by line, the boot log of its node, an e-mail and a webhook's message."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from bed import Bed, Submitted, wait_for

PROGRAM = """\
import os, sys, time
rank = int(os.environ["RANK"])
print("loss 0.5 of", rank, flush=True)
time.sleep(6)
print("accuracy 0.9", flush=True)
if rank == 1:
    time.sleep(1)
    raise RuntimeError("bad gradient")
time.sleep(30)
"""
SERVER = """\
import http.server
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("/tmp/hook.jsonl", "ab") as file:
            file.write(body + b"\\n")
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 8123), Hook).serve_forever()
"""


@pytest.fixture(scope="module")
def queue(people: Bed) -> str:
    """A queue that gets what the alarms' topic gets."""
    sqs, sns = people.client("sqs"), people.client("sns")
    url = str(sqs.create_queue(QueueName="notices")["QueueUrl"])
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    (topic,) = sns.list_topics()["Topics"]
    sns.subscribe(TopicArn=topic["TopicArn"], Protocol="sqs", Endpoint=arn)
    return url


@pytest.fixture(scope="module")
def failed(people: Bed, queue: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitted]:
    """alice's job of two ranks, of which one fails. She hears by a webhook, the administrator by e-mail."""
    people.ssh("sh", "-c", f"cat >/tmp/hook.py <<'EOF'\n{SERVER}EOF\nsudo systemd-run --unit=hook python3 /tmp/hook.py")
    folder = tmp_path_factory.mktemp("notices")
    (folder / "train.py").write_text(PROGRAM)
    told = ("--notify", "HOOK", "--notify", "email:failure")
    size = ("--gpus", "2", "--launcher", "srun", "--ntasks-per-node", "2", "--follow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOOK", "http://127.0.0.1:8123/secret-path")
        yield people.of("alice").submit(
            "--workdir", str(folder), *told, *size, "--", "python", "train.py", timeout_s=420
        )
    people.ssh("sh", "-c", "sudo systemctl stop hook")


def lines(people: Bed, job: Submitted, *options: str) -> list[str]:
    done = people.of("alice").gpucluster("logs", job.last["job_id"], *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_lines_are_chosen_by_rank_text_and_time(people: Bed, failed: Submitted) -> None:
    assert failed.exit_code == 4, failed.told
    assert [line.partition("] ")[2] for line in lines(people, failed, "--rank", "0", "--grep", "loss|acc")] == [
        "loss 0.5 of 0",
        "accuracy 0.9",
    ]
    everything = lines(people, failed, "--all")
    assert lines(people, failed, "--run", "1", "--all") == everything
    assert lines(people, failed, "--tail", "1", "--all") == everything[-1:]
    ended = time.time()
    assert lines(people, failed, "--since", "1d", "--all") == everything
    assert lines(people, failed, "--since", f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ended + 60))}") == []
    (node,) = failed.result["node_list"]
    assert {line.partition(" ")[0] for line in lines(people, failed, "--node", node)} == {"[0", "[1"}


def test_the_boot_of_its_node_is_shown(people: Bed, failed: Submitted) -> None:
    (node,) = failed.result["node_list"]
    boot = lines(people, failed, "--boot")
    assert any(line.startswith(f"[{node}] ") and "step=slurm_compute status=ok" in line for line in boot)


def test_a_webhook_hears_of_start_and_failure(people: Bed, failed: Submitted) -> None:
    def got() -> list[dict[str, Any]]:
        return [json.loads(line) for line in people.ssh("sh", "-c", "cat /tmp/hook.jsonl || :").splitlines()]

    wait_for("two messages", lambda: len(got()) == 2, 60)
    start, end = got()
    assert (start["event"], end["event"]) == ("start", "failure") and end["job_id"] == failed.last["job_id"]
    assert "RuntimeError: bad gradient" in end["reason"] and end["usd"] is not None and end["state"] == "FAILED"


def test_the_alarms_topic_gets_the_failure_alone(people: Bed, failed: Submitted, queue: str) -> None:
    found: list[dict[str, Any]] = []

    def arrived() -> bool:
        answer = people.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        found.extend(json.loads(message["Body"]) for message in answer.get("Messages", []))
        return bool(found)

    wait_for("an e-mail", arrived, 60)
    (mail,) = found
    assert mail["Subject"].endswith(f"job {failed.last['job_id']} train has failed")
    assert "RuntimeError: bad gradient" in mail["Message"]


def test_the_address_is_gone_with_the_job_and_in_no_log(people: Bed, failed: Submitted) -> None:
    folder = f"/home/alice/jobs/by-id/{failed.last['job_id']}"
    wait_for("the end", lambda: "notify.json" not in people.ssh("sudo", "ls", f"{folder}/"), 30)
    look = f"sudo grep -rl secret-path {folder}/ /var/log/gpucluster /var/log/slurm || :"
    assert people.ssh("sh", "-c", look) == "" and "secret-path" not in "\n".join(failed.log) + failed.told
