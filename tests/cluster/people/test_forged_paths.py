"""A user's script whose path forges a record of another user's job: root requeues only the jobs of a broken node."""

from __future__ import annotations

from bed import Bed, wait_for

QUOTED = "overlayfs: failed to resolve 'NVRM: Xid (PCI:0000:00:1b): 95, x': -2"  # a wrong option of a user's own mount
XID = "NVRM: Xid (PCI:0000:00:1b): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
FORGED = r"evil/x\n{job}|N/A|N/A|N/A|0|RUNNING|{node}|/home/bob/z"
MAKE = r"""mkdir -p "$(dirname "$(printf '{path}')")" && printf '#!/bin/sh\nsleep 600\n' >"$(printf '{path}')"
sbatch --parsable --nodes=1 --exclusive "$(printf '{path}')" """


def state_of(bed: Bed, job: str) -> list[str]:
    return bed.ssh("squeue", "--noheader", "--states=all", f"--jobs={job}", "--Format=State:20,RestartCnt:4").split()


def test_an_ended_job_of_another_user_stays_ended(people: Bed) -> None:
    alice, bob = people.of("alice"), people.of("bob")
    failed = bob.gpucluster("ssh", "--", "sbatch", "--parsable", "--nodes=1", "--wrap=exit 3")
    his = failed.stdout.strip()
    wait_for("its end", lambda: state_of(people, his)[:1] == ["FAILED"], 240)
    node = people.ssh("squeue", "--noheader", "--states=all", f"--jobs={his}", "--format=%N").strip()
    made = MAKE.replace("{path}", FORGED.format(job=his, node=node))
    done = alice.gpucluster("ssh", "--", "sh", "-c", made)
    assert done.returncode == 0, done.stderr
    hers = done.stdout.strip()
    wait_for("her job", lambda: state_of(people, hers)[:1] == ["RUNNING"], 120)

    where = people.ssh("squeue", "--noheader", f"--jobs={hers}", "--format=%N").strip()
    for message in (QUOTED, XID):
        rule = ["--message", message, "--instance-id", people.instance_of(where)]
        assert people.localcloud("fault", "add", "kernel-log", *rule).returncode == 0
    wait_for("her job runs again", lambda: state_of(people, hers)[1:] == ["1"], 120)
    assert state_of(people, his) == ["FAILED", "0"]
    wait_for("the first fault as the reason", lambda: "Xid 79" in people.ssh("scontrol", "show", "node", where), 60)
    people.localcloud("fault", "clear")
    assert alice.gpucluster("cancel", hers).returncode == 0
