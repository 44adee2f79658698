"""`gpucluster doctor --node` on the node: no job runs beside DCGM, and nobody else's drain ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from gpucluster_node import slurm
from gpucluster_node.health import answered, aside, checks, facts, look
from gpucluster_node.health.checks import Answer

from gpucluster.head import checkup
from localcloud.testing.patience import wait_for
from localcloud.testing.recorded import record

BOOTSTRAP = Path(__file__).resolve().parents[4] / "bootstrap"
NODE = facts.Facts(gpus=8)
OWN = "doctor: alice tests its GPUs with gpucluster doctor --node"
RAN = "Successfully ran diagnostic for group.\n"
PASSED, FAILED = f"{RAN}| memory  | Pass |\n", f"{RAN}| memory  | Fail |\n"
NO_ENGINE = record("dcgmi/no-host-engine.txt")
AWAY = slurm.UnansweredError("Unable to contact slurm controller (connect failure)")


class Slurm:
    """One node and its jobs, as Slurm 24.11 changes them (node_mgr.c: update_node)."""

    def __init__(self) -> None:
        self.state, self.reason = {"IDLE", "CLOUD"}, ""
        self.jobs = list[str]()
        self.updates = list[str]()
        self.pauses = list[float]()
        self.on_drain: Callable[[], object] = lambda: None
        self.fails = list[slurm.SlurmError]()
        """Errors of the next calls that end the drain, or that leave the node to be replaced."""

    def run(self, argv: Sequence[str]) -> str:
        if argv[0] == "squeue":
            return "".join(f"{job}\n" for job in self.jobs)
        if argv[1] == "show":
            reason = f" Reason={self.reason} [root@2026-11-25T12:00:00]" if self.reason else ""
            return f"NodeName=train-2 NodeAddr=10.0.0.1 State={'+'.join(sorted(self.state))}{reason}\n"
        given = dict(word.split("=", 1) for word in argv[2:])
        assert given["nodename"] == "train-2"
        self._update(given["state"], given.get("reason", self.reason))
        return ""

    def _update(self, state: str, reason: str) -> None:
        if state != "drain" and self.fails:
            raise self.fails.pop(0)
        self.updates.append(state)
        self.reason = reason
        if state == "undrain":
            self.state.discard("DRAIN")
        else:
            self.state |= {"DRAIN"} | ({"POWER_DOWN"} if state == "power_down_asap" else set())
            self.on_drain()


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    made = Slurm()
    monkeypatch.setattr(slurm, "call", made.run)
    monkeypatch.setattr("socket.gethostname", lambda: "train-2")
    monkeypatch.setattr(look, "look", lambda node: {"x": []})
    monkeypatch.setattr(aside, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(answered.time, "sleep", made.pauses.append)
    monkeypatch.setenv("SUDO_USER", "alice")
    return made


def diagnosed(
    played: Slurm, monkeypatch: pytest.MonkeyPatch, dcgmi: str, during: Callable[[], object]
) -> dict[str, object]:
    """during: what happens while DCGM tests the GPUs."""

    def ask(node: facts.Facts, wanted: Sequence[checks.Check], limit_s: float) -> list[tuple[checks.Check, Answer]]:
        if wanted[0] is checks.PROCESSES:
            return [(wanted[0], Answer(0))]
        assert "DRAIN" in played.state, "no job may start"
        during()
        return [(wanted[0], Answer(0, dcgmi))]

    monkeypatch.setattr(look, "ask", ask)
    return look.diagnose(lambda: NODE)


def nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("dcgmi", "skipped"),
    [(PASSED, ""), (NO_ENGINE, "Error: unable to establish a connection to the specified host: localhost")],
)
def test_while_dcgm_runs_the_node_is_drained_with_the_reason(
    played: Slurm, monkeypatch: pytest.MonkeyPatch, dcgmi: str, skipped: str
) -> None:
    reasons = list[str]()
    result = diagnosed(played, monkeypatch, dcgmi, lambda: reasons.append(played.reason))
    found = {"x": []} if skipped else {"x": [], "DCGM": []}
    assert result == {"ok": True, "checks": found, "skipped": skipped, "drained": ""}
    assert reasons == [OWN]
    assert played.updates == ["drain", "undrain"] and played.state == {"IDLE", "CLOUD"}


def test_a_node_whose_gpus_fail_is_left_to_be_replaced(played: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "health: dcgmi diag: memory: Fail"
    result = diagnosed(played, monkeypatch, FAILED, nothing)
    assert result == {
        "ok": False,
        "checks": {"x": [], "DCGM": ["dcgmi diag: memory: Fail"]},
        "skipped": "",
        "drained": why,
    }
    assert played.updates == ["drain", "power_down_asap"] and played.reason == why


@pytest.mark.parametrize("state", ["RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED"])
def test_a_node_that_a_job_has_is_not_touched(played: Slurm, state: str) -> None:
    played.jobs = ["6 COMPLETED", f"7 {state}"]
    result = look.diagnose(lambda: NODE)
    assert result == {"ok": True, "checks": {"x": []}, "skipped": "job 7 has the node", "drained": ""}
    assert played.updates == []


def test_a_job_that_got_the_node_before_the_drain_keeps_dcgm_away(
    played: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.on_drain = lambda: played.jobs.append("8 CONFIGURING")
    result = diagnosed(played, monkeypatch, PASSED, lambda: pytest.fail("DCGM ran beside a job"))
    assert result["skipped"] == "job 8 has the node"
    assert played.updates == ["drain", "undrain"]


@pytest.mark.parametrize(
    ("answer", "skipped"),
    [
        (Answer(0, "4711\n4712\n"), "process 4711 uses a GPU"),
        (Answer(0, "[Insufficient Permissions]\n"), ""),
        (Answer(97, "1\n"), ""),
        (Answer(None), ""),
    ],
)
def test_a_process_without_a_job_keeps_dcgm_away(
    played: Slurm, monkeypatch: pytest.MonkeyPatch, answer: Answer, skipped: str
) -> None:
    """DCGM would find its GPU broken, and the node would be replaced under the process."""
    answers = {checks.PROCESSES.name: answer, checks.DIAGNOSTICS.name: Answer(0, PASSED)}
    monkeypatch.setattr(look, "ask", lambda node, wanted, limit_s: [(wanted[0], answers[wanted[0].name])])
    assert look.diagnose(lambda: NODE)["skipped"] == skipped
    assert played.updates == ["drain", "undrain"]


def test_a_node_that_boots_is_not_drained_because_slurm_would_requeue_its_job(played: Slurm) -> None:
    played.state |= {"POWERING_UP"}
    assert look.diagnose(lambda: NODE)["skipped"] == "it is still booting"
    assert played.updates == []


@pytest.mark.parametrize("dcgmi", [PASSED, FAILED])
@pytest.mark.parametrize("state", ["DRAIN", "DRAIN POWER_DOWN"])
def test_a_node_that_somebody_else_has_drained_stays_drained_for_that_reason(
    played: Slurm, monkeypatch: pytest.MonkeyPatch, dcgmi: str, state: str
) -> None:
    played.state |= set(state.split())
    played.reason = "bob looks at its fans"
    result = diagnosed(played, monkeypatch, dcgmi, nothing)
    assert result["drained"] == "" and result["ok"] == (dcgmi == PASSED)
    assert played.updates == [] and played.reason == "bob looks at its fans"


@pytest.mark.parametrize("dcgmi", [PASSED, FAILED])
@pytest.mark.parametrize("set_", ["drain", "power_down_asap"])
def test_a_drain_that_somebody_sets_meanwhile_stays(
    played: Slurm, monkeypatch: pytest.MonkeyPatch, dcgmi: str, set_: str
) -> None:
    ill = "health: Xid 79 of GPU 0000:06:00: the GPU has fallen off the bus"
    diagnosed(played, monkeypatch, dcgmi, lambda: slurm.update(["train-2"], state=set_, reason=ill))
    assert played.updates == ["drain", set_] and "DRAIN" in played.state and played.reason == ill


def test_a_node_that_is_powered_down_meanwhile_is_left_to_slurm(played: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    def end() -> None:
        played.state = {"IDLE", "CLOUD", "POWERING_DOWN"}

    diagnosed(played, monkeypatch, FAILED, end)
    assert played.updates == ["drain"]


def test_a_test_that_fails_takes_the_node_back(played: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise SystemExit(143)

    before = [signal.getsignal(each) for each in aside.SIGNALS]
    with pytest.raises(SystemExit):
        diagnosed(played, monkeypatch, PASSED, fail)
    assert played.updates == ["drain", "undrain"]
    assert [signal.getsignal(each) for each in aside.SIGNALS] == before


def test_a_drain_ends_although_slurmctld_is_away_while_the_head_node_is_replaced(
    played: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else ends the drain of a node that is always on."""
    played.fails = [AWAY] * 9
    diagnosed(played, monkeypatch, PASSED, nothing)
    assert played.updates == ["drain", "undrain"] and played.pauses == [1, 2, 5, 10, 20, 30, 30, 30, 30]


def test_it_gives_up_after_an_hour(played: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered.LONGEST_S >= 3600
    monkeypatch.setattr(answered, "LONGEST_S", -1.0)
    played.fails = [AWAY] * 2
    with pytest.raises(slurm.UnansweredError):
        diagnosed(played, monkeypatch, PASSED, nothing)
    assert played.updates == ["drain"] and played.pauses == []


def test_a_broken_node_is_never_taken_back(played: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    played.fails = [AWAY] * 3
    result = diagnosed(played, monkeypatch, FAILED, nothing)
    assert result["drained"] == "health: dcgmi diag: memory: Fail"
    assert played.updates == ["drain", "power_down_asap"] and played.pauses == [1, 2, 5]
    played.state = {"IDLE", "CLOUD"}
    played.fails = [slurm.SlurmError("not now")]
    with pytest.raises(slurm.SlurmError):
        diagnosed(played, monkeypatch, FAILED, nothing)
    assert played.updates[-1] == "drain" and "DRAIN" in played.state


def test_a_signal_that_comes_as_the_drain_ends_is_too_late(played: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would raise SystemExit between two bytecodes."""

    def interrupt(number: int, frame: object) -> None:
        pytest.fail("the drain stays")

    before = [signal.signal(each, interrupt) for each in aside.SIGNALS]
    monkeypatch.setattr(answered.time, "sleep", lambda pause_s: os.kill(os.getpid(), signal.SIGTERM))
    played.fails = [AWAY]
    diagnosed(played, monkeypatch, PASSED, nothing)
    assert played.updates == ["drain", "undrain"]
    after = [signal.signal(each, handler) for each, handler in zip(aside.SIGNALS, before, strict=True)]
    assert after == [interrupt] * 3, "the program's own handlers are back"


def test_a_signal_that_comes_just_before_does_not_keep_the_drain(
    played: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end() -> list[object]:
        raise SystemExit(143)

    monkeypatch.setattr(aside, "ignore_signals", end)
    with pytest.raises(SystemExit):
        diagnosed(played, monkeypatch, PASSED, nothing)
    assert played.updates == ["drain", "undrain"]


def test_a_drain_that_a_killed_test_has_left_is_taken_over(played: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    played.state |= {"DRAIN"}
    played.reason = "doctor: bob tests its GPUs with gpucluster doctor --node"
    diagnosed(played, monkeypatch, PASSED, nothing)
    assert played.updates == ["drain", "undrain"] and "DRAIN" not in played.state


def test_two_do_not_test_at_once(played: Slurm) -> None:
    with aside.taken("train-2") as first, aside.taken("train-2") as second:
        assert (first.hindrance, second.hindrance) == ("", "another `gpucluster doctor --node` tests it")
        assert "DRAIN" in played.state
    assert played.updates == ["drain", "undrain"]


def test_a_node_without_gpus_is_not_drained(played: Slurm) -> None:
    result = look.diagnose(facts.Facts)
    assert result == {"ok": True, "checks": {"x": []}, "skipped": "", "drained": ""} and played.updates == []


def test_the_answer_is_one_line_of_json(
    played: Slurm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(look, "_end_on_signals", lambda: None)
    monkeypatch.setattr(facts, "load", lambda: facts.Facts())
    monkeypatch.setattr("sys.argv", ["look", "--diagnose"])
    assert look.main() == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "checks": {"x": []}, "skipped": "", "drained": ""}


STAND_INS = {
    "scontrol": 'echo "$*" >>calls; [ "$1" = update ] || echo "NodeName=train-2 State=$(cat state)"\n'
    'case "$*" in *state=drain*) echo "IDLE+DRAIN Reason=${4#reason=} [root@2026-11-25T12:00:00]" >state ;; esac',
    "squeue": "",
    "systemctl": 'echo "systemctl $*" >>calls; [ "$1" != --quiet ]',
    "nvidia-smi": "",
    "dcgmi": "trap 'sleep 0.3; echo dcgmi stopped >>calls; exit 1' TERM\ntouch running\n"
    "for i in 1 2 3 4 5 6; do sleep 10 & wait; done",
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_interruption_stops_dcgm_before_the_drain_ends(tmp_path: Path, number: int) -> None:
    """As a program, with stand-ins for the commands. DCGM's service is stopped too, which this program started."""
    program = start(tmp_path, "look.main()")
    wait_for("DCGM", lambda: (tmp_path / "running").exists(), 30, 0.05)
    program.send_signal(number)
    program.communicate(timeout=60)
    assert program.returncode == 128 + number
    assert calls(tmp_path)[-3:] == [
        "dcgmi stopped",
        "systemctl stop nvidia-dcgm",
        "update nodename=train-2 state=undrain",
    ]


STUBBORN = "trap '' TERM\ntouch running\nfor i in $(seq 60); do sleep 1; done"


def test_dcgm_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    assert asked(tmp_path, "0.5") == "dcgmi did not end within 0.5 s"
    assert calls(tmp_path)[-2:] == ["dcgmi stopped", "systemctl stop nvidia-dcgm"]


def test_dcgmi_that_ignores_its_end_is_killed_and_the_tests_end_with_their_service(tmp_path: Path) -> None:
    assert asked(tmp_path, "0.5", "0.5", dcgmi=STUBBORN) == "dcgmi did not end within 0.5 s"
    assert calls(tmp_path)[-2:] == ["systemctl try-restart nvidia-dcgm", "systemctl stop nvidia-dcgm"]


def test_an_interruption_kills_dcgmi_that_ignores_it(tmp_path: Path) -> None:
    program = start(tmp_path, f"argv[-1] = '0.5'\n{REPLACED}look.main()", dcgmi=STUBBORN)
    wait_for("DCGM", lambda: (tmp_path / "running").exists(), 30, 0.05)
    program.send_signal(signal.SIGTERM)
    program.communicate(timeout=60)
    ends = ["systemctl try-restart nvidia-dcgm", "systemctl stop nvidia-dcgm"]
    assert calls(tmp_path)[-3:] == [*ends, "update nodename=train-2 state=undrain"]


def test_all_limits_fit_into_that_of_the_command() -> None:
    assert checks.DIAGNOSTICS_S + 2 * checks.LIMIT_S + 4 * slurm.TIMEOUT_S < checkup.LONGEST_S
    assert checks.STOP_S > checks.DCGMI_STOPS_S + 90


def test_without_any_answer_the_tests_end_before_the_drain(played: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example because systemctl hangs."""
    ended = list[str]()

    def ask(node: facts.Facts, wanted: Sequence[checks.Check], limit_s: float) -> list[tuple[checks.Check, Answer]]:
        if wanted[0] is checks.END_TESTS:
            ended.extend(played.state)
        return [(wanted[0], Answer(None if wanted[0] is checks.DIAGNOSTICS else 0))]

    monkeypatch.setattr(look, "ask", ask)
    result = look.diagnose(lambda: NODE)
    assert result["skipped"] == "dcgmi did not end within 1010 s" and "DRAIN" in ended
    assert played.updates == ["drain", "undrain"]


def asked(folder: Path, *limits: str, dcgmi: str = STAND_INS["dcgmi"]) -> str:
    """What DCGM's check prints first. limits: those of dcgmi, and of its end."""
    code = "print(json.dumps(look.ask(facts.Facts(gpus=1), [checks.DIAGNOSTICS], 60)[0][1].first_line))"
    replaced = f"argv[3:] = [*{limits}, *argv[3 + {len(limits)}:]]\n{REPLACED}"
    done = start(folder, f"{replaced}{code}", dcgmi=dcgmi)
    return str(json.loads(done.communicate(timeout=60)[0]))


def calls(folder: Path) -> list[str]:
    return [call for call in (folder / "calls").read_text().splitlines() if "show" not in call]


REPLACED = "checks.DIAGNOSTICS = dataclasses.replace(checks.DIAGNOSTICS, argv=tuple(argv))\n"


def start(folder: Path, code: str, dcgmi: str = STAND_INS["dcgmi"]) -> subprocess.Popen[str]:
    (folder / "state").write_text("IDLE\n")
    for name, body in (STAND_INS | {"dcgmi": dcgmi}).items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    begin = (
        "import dataclasses, json, pathlib, socket, sys\n"
        "from gpucluster_node.health import answered, aside, checks, facts, look\n"
        "aside.LOCK = pathlib.Path('lock'); socket.gethostname = lambda: 'train-2'\n"
        "checks.QUICK = (); facts.load = lambda: facts.Facts(gpus=1); sys.argv = ['look', '--diagnose']\n"
        "argv = list(checks.DIAGNOSTICS.argv)\n"
    )
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(BOOTSTRAP)}
    return subprocess.Popen(
        ["python3", "-c", begin + code], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
