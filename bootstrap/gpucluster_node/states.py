"""What the head node does in each state of a node, of an instance, and of a job's Lustre file system: three tables.

`power/reconcile.py` and `lustre/for_jobs.py` decide with them, and docs/elasticity.md shows them. A test checks that
each combination of a table's words has exactly one rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import product

LAUNCH_GRACE = timedelta(seconds=90)
"""Counts while no launch has the node. Slurm may not have asked for it yet, or the launch has ended and EC2 does not
list the new instance yet."""
GONE_GRACE = timedelta(seconds=20)
"""DescribeInstances may omit an instance that it returned before (elifesciences/builder#88)."""
ORPHAN_GRACE = timedelta(seconds=60)
FREE_GRACE = timedelta(seconds=15)
"""Slurm repeats its request to end a job at the address of a lost node for half a minute. The node's next instance may
have the same address; its launch and boot take the rest of that time."""
NOW = timedelta()

Words = tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """state: for each column, the words to which the rule applies. action: empty if the head node does nothing. after:
    how long the state must last before the action."""

    state: tuple[Words, ...]
    action: str
    why: str
    after: timedelta = NOW
    then: Words = ()
    """Slurm's states of the node that may follow the action, or the following phases of the file system."""


@dataclass(frozen=True)
class Table:
    columns: tuple[tuple[str, Words], ...]
    """Title and words of each column."""
    rules: tuple[Rule, ...]

    def rule(self, *state: str) -> Rule:
        return self._by_state[state]

    @cached_property
    def _by_state(self) -> dict[Words, Rule]:
        return {state: self.matching(state)[0] for state in self.states()}

    def matching(self, state: Sequence[str]) -> list[Rule]:
        return [
            rule for rule in self.rules if all(word in words for word, words in zip(state, rule.state, strict=True))
        ]

    def states(self) -> list[Words]:
        """All combinations."""
        return list(product(*(words for _, words in self.columns)))


OFF, ASKED, BOOTING, UP, SILENT, DRAINED = "off", "requested", "booting", "up", "silent", "drained"
LAST_JOB, ENDING, DOWN = "in its last job", "powering down", "down"
DOWN_ENDING, DOWN_OFF = "down and powering down", "down and off"
SLURM = (OFF, ASKED, BOOTING, UP, SILENT, DRAINED, LAST_JOB, ENDING, DOWN, DOWN_ENDING, DOWN_OFF)
IN_SERVICE = (UP, SILENT, DRAINED, LAST_JOB)

NONE, ENDED, LIVE, BOOT_FAILED, OUTDATED = "none", "ended", "live", "boot failed", "old template"
EC2 = (NONE, ENDED, LIVE, BOOT_FAILED, OUTDATED)

LAUNCHING, DUE, ALWAYS_ON, ELSE = "being launched", "may be tried again", "always on", "nothing"
FREE = "its instance has terminated"
"""EC2 lists it as terminated, or has launched none, and the node's SuspendProgram has ended."""
OURS = (LAUNCHING, DUE, FREE, ALWAYS_ON, ELSE)
IDLE = (DUE, FREE, ALWAYS_ON, ELSE)
"""No launch has the node."""

NODE = Table(
    (("Slurm's node", SLURM), ("its instance", EC2), ("other facts", OURS)),
    (
        Rule((SLURM, EC2, (LAUNCHING,)), "", "its launch names its instance, or sets it DOWN"),
        Rule(((OFF,), EC2, (ALWAYS_ON,)), "power_up", "the partition's `min_nodes` are always on", then=(ASKED,)),
        Rule(((OFF,), EC2, (DUE, FREE, ELSE)), "", "no job needs it"),
        Rule(((ASKED,), EC2, IDLE), "", "Slurm calls ResumeProgram"),
        Rule(
            ((ENDING,), EC2, (FREE,)),
            "resume",
            "its SuspendProgram has ended too: Slurm need not wait for SuspendTimeout",
            FREE_GRACE,
            (OFF,),
        ),
        Rule(((ENDING,), EC2, (DUE, ALWAYS_ON, ELSE)), "", "Slurm calls SuspendProgram, and waits for SuspendTimeout"),
        Rule(
            ((BOOTING,), (NONE,), IDLE),
            "down",
            "it was not launched, or EC2 does not show it; its jobs are requeued",
            LAUNCH_GRACE,
            (DOWN,),
        ),
        Rule(((SILENT,), (NONE,), IDLE), "down", "it is gone; its jobs are requeued", GONE_GRACE, (DOWN, DOWN_ENDING)),
        Rule(((UP, DRAINED, LAST_JOB), (NONE,), IDLE), "", "it answers Slurm: EC2's answer omits its instance"),
        Rule(
            ((BOOTING, *IN_SERVICE), (ENDED,), IDLE),
            "down",
            "it has ended; its jobs are requeued",
            then=(DOWN, DOWN_ENDING),
        ),
        Rule(
            ((BOOTING, SILENT), (BOOT_FAILED,), IDLE),
            "down",
            "the failed boot step becomes the node's reason",
            then=(DOWN, DOWN_ENDING),
        ),
        Rule(((UP, DRAINED, LAST_JOB), (BOOT_FAILED,), IDLE), "", "it answers: it has recovered from its boot's error"),
        Rule(
            ((UP,), (OUTDATED,), IDLE),
            "power_down_asap",
            "it is replaced after its jobs",
            then=(LAST_JOB, ENDING),
        ),
        Rule(((BOOTING, SILENT, DRAINED, LAST_JOB), (OUTDATED,), IDLE), "", "it is not in service"),
        Rule(((BOOTING, *IN_SERVICE), (LIVE,), IDLE), "", "all is well, or Slurm's own timeouts count"),
        Rule(((DOWN,), EC2, (DUE,)), "power_down_force", "its instance, if any, is terminated", then=(DOWN_ENDING,)),
        Rule(((DOWN_OFF,), EC2, (DUE,)), "resume", "Slurm may use it again", then=(OFF,)),
        Rule(((DOWN_ENDING,), EC2, (DUE,)), "", "Slurm calls SuspendProgram"),
        Rule(
            ((DOWN, DOWN_ENDING, DOWN_OFF), EC2, (FREE, ALWAYS_ON, ELSE)),
            "",
            "its reason says when it is tried again; if a user set it DOWN, it is left to Slurm and the user",
        ),
    ),
)

UNNAMED, UNKNOWN_NODE = "has no node's name", "of an unknown node"
SPARE, OWN = "a second one of its node", "its node's own"
NO_NODE = "-"
FROM_BEFORE, BY_PROGRAM, SETTLED = "launched before the node's current launch", "being launched", "nothing"

_NAMED_SLURM = (*SLURM, NO_NODE)
INSTANCE = Table(
    (
        ("the instance", (UNNAMED, UNKNOWN_NODE, SPARE, OWN)),
        ("Slurm's node", _NAMED_SLURM),
        ("other facts", (FROM_BEFORE, BY_PROGRAM, SETTLED)),
    ),
    (
        Rule(
            ((UNNAMED, UNKNOWN_NODE, SPARE, OWN), _NAMED_SLURM, (BY_PROGRAM,)),
            "",
            "it is being launched",
        ),
        Rule(((UNNAMED,), _NAMED_SLURM, (FROM_BEFORE, SETTLED)), "terminate", "it has no node's name", ORPHAN_GRACE),
        Rule(
            ((UNKNOWN_NODE,), _NAMED_SLURM, (FROM_BEFORE, SETTLED)),
            "terminate",
            "its node is not a node of this cluster",
            ORPHAN_GRACE,
        ),
        Rule(
            ((SPARE,), _NAMED_SLURM, (FROM_BEFORE, SETTLED)), "terminate", "its node has its own instance", ORPHAN_GRACE
        ),
        Rule(
            ((OWN,), _NAMED_SLURM, (FROM_BEFORE,)),
            "terminate",
            "it was launched before its node's current launch: Slurm does not accept it, and it uses capacity",
            ORPHAN_GRACE,
        ),
        Rule(((OWN,), (OFF, DOWN_OFF), (SETTLED,)), "terminate", "its node is powered down", ORPHAN_GRACE),
        Rule(
            ((OWN,), tuple(word for word in _NAMED_SLURM if word not in (OFF, DOWN_OFF)), (SETTLED,)),
            "",
            "its node needs it",
        ),
    ),
)

ABSENT, CREATING, LINKING, READY, LEAVING, DELETING = "absent", "creating", "linking", "ready", "leaving", "deleting"
PHASES = (ABSENT, CREATING, LINKING, READY, LEAVING, DELETING)
NOT_ASKED, MISSING, UNDER_WAY, AVAILABLE, BROKEN = "no id", "not found", "being changed", "available", "failed"
FSX = (NOT_ASKED, MISSING, UNDER_WAY, AVAILABLE, BROKEN)
_THERE = (UNDER_WAY, AVAILABLE)
_FOUND = (*_THERE, BROKEN)

LUSTRE = Table(
    (("phase", PHASES), ("FSx's file system", FSX)),
    (
        Rule(
            ((ABSENT,), FSX),
            "wait_for_a_job",
            "it is created for the first job that requests it",
            then=(ABSENT, CREATING),
        ),
        Rule(
            ((CREATING, LINKING, READY, LEAVING, DELETING), (NOT_ASKED,)),
            "request",
            "one with the cluster's tags is used; if there is none, a new one is requested, but only for a job",
            then=(ABSENT, CREATING),
        ),
        Rule(((CREATING,), (MISSING,)), "request_again", "the same token creates no second one", then=(CREATING,)),
        Rule(
            ((LINKING, READY, LEAVING, DELETING), (MISSING,)),
            "forget",
            "it is deleted, by the head node or by a user",
            then=(ABSENT,),
        ),
        Rule(
            ((CREATING,), _THERE),
            "await",
            "it is linked with S3 once it is available",
            then=(CREATING, LINKING),
        ),
        Rule(
            ((LINKING,), _THERE), "link", "one link after another; then the head node mounts it", then=(LINKING, READY)
        ),
        Rule(
            ((READY,), _THERE),
            "serve",
            "unused for `idle_minutes`, it is exported, checked and deleted; a file that is not in S3 keeps it",
            then=(READY, DELETING),
        ),
        Rule(
            ((CREATING, LINKING, READY), (BROKEN,)),
            "report",
            "jobs read FSx's reason; without data it is deleted, and created again if a job waits",
            then=(CREATING, LINKING, READY, DELETING),
        ),
        Rule(((LEAVING,), _FOUND), "stay", "the head node was restarted during the last check", then=(READY,)),
        Rule(((DELETING,), _FOUND), "delete", "the request is repeated until FSx says DELETING", then=(DELETING,)),
    ),
)
