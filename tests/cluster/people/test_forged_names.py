"""A user's job names in the administrator's lists: they forge no row, break no verb, and do nothing to the terminal."""

from __future__ import annotations

import json

from bed import Bed

ROW = "7777|RUNNING|train|4|train-[1-4]|3-00:00:00|UNLIMITED|2026-11-28T10:00:00|2026-11-28T10:00:00|secret|None"
NAMES = [f"x\n{ROW}", f"x\n{ROW.replace('|4|', '|many|')}", "\x1b]52;c;cm0gLXJmIC8K\x07", f"\u2028{ROW}\r{ROW}"]


def held(bed: Bed, name: str) -> str:
    """Job id. `ssh` takes each word as it is."""
    words = ["sbatch", "--parsable", "--hold", f"--job-name={name}", "--wrap=true"]
    done = bed.gpucluster("ssh", "--", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_forged_names(people: Bed) -> None:
    alice, bob = people.of("alice"), people.of("bob")
    his = held(bob, "honest")
    hers = [held(alice, name) for name in NAMES]

    done = people.gpucluster("jobs", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["job_id"]: row for row in json.loads(done.stdout)}
    assert {*hers, his} <= {*rows} and "7777" not in rows
    assert [rows[job]["name"] for job in hers] == NAMES
    assert {rows[job]["user"] for job in hers} == {"alice"} and rows[his]["user"] == "bob"

    for verb in (["jobs"], ["status"], ["why", hers[0]], ["why", his]):
        done = people.gpucluster(*verb)
        assert done.returncode == 0, done.stderr
        assert all(line.isprintable() for line in (done.stdout + done.stderr).split("\n")), (verb, ascii(done.stdout))
        assert not any(line.lstrip().startswith("7777") for line in done.stdout.splitlines()), done.stdout
    assert [line.split()[0] for line in people.gpucluster("jobs").stdout.splitlines()].count(hers[0]) == 1

    assert "train" in people.gpucluster("status").stdout, "its nodes are listed"
    assert bob.gpucluster("cancel", his).returncode == 0
    for job in hers:
        assert people.gpucluster("cancel", job).returncode == 0
