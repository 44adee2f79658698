"""Which nodes the checks before each job drain, from what real commands printed, and with which words."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from gpucluster_node import imds, slurm
from gpucluster_node.health import checks, facts, look, xid
from gpucluster_node.health.checks import Answer, Check

from localcloud.testing.patience import stretched
from localcloud.testing.recorded import record

DATA = Path(__file__).resolve().parents[2] / "data/health"
BOOTSTRAP = Path(__file__).resolve().parents[3] / "bootstrap"
P4DE = facts.Facts(gpus=8, efa_interfaces=4, nvlink=True, mounts=("/home", "/fsx"))
XIDS = (DATA / "xid.txt").read_text()
LINKS = (DATA / "nvlink-p4de.txt").read_text()
NO_LINKS = (DATA / "nvlink-all-inactive.txt").read_text()
EIGHT = "".join(f"{gpu}, 3{gpu}\n" for gpu in range(8))
LOST = record("nvidia-smi/gpu-lost.txt").splitlines()


def gpus(text: str, code: int | None = 0) -> list[str]:
    return list(checks.gpus(Answer(code, text), P4DE))


def test_each_xid_has_the_verdict_of_nvidias_catalog() -> None:
    assert list(xid.broken(XIDS)) == [
        "Xid 48 of GPU 0000:07:00: an uncorrectable memory error",
        "Xid 64 of GPU 0000:0f:00: a memory row could not be remapped",
        "Xid 74 of GPU 0000:c1:00: an NVLink error",
        "Xid 79 of GPU 0000:06:00: the GPU has fallen off the bus",
        "Xid 95 of GPU 0000:01:00: an uncontained memory error",
        "Xid 119 of GPU 0000:61:00: the GPU's system processor does not answer",
        "Xid 154 of GPU 0008:01:00: the driver asks for: GPU Reset Required",
        "Xid 154 of GPU 0009:01:00: the driver asks for: Drain and Reset",
    ]


def test_a_gpu_without_its_auxiliary_power_needs_other_hardware() -> None:
    """The catalog's action is CHECK_MECHANICALS; no line of it is recorded. The GPU works on, with lower clocks."""
    (fault,) = xid.faults("NVRM: Xid (PCI:0000:2b:00): 54, pid='<unknown>', name=<unknown>")
    assert fault.description == "Xid 54 of GPU 0000:2b:00: the GPU's auxiliary power is not connected"
    assert fault.reach == "none"


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 92, 94, 137, 155, 156, 157])
def test_what_a_program_did_itself_does_not_drain_the_node(number: int) -> None:
    assert not list(xid.broken(f"NVRM: Xid (PCI:0000:2b:00): {number}, pid=1942, name=python, Ch 00000008"))


def test_the_same_error_is_said_once() -> None:
    assert len(list(xid.broken(XIDS + XIDS))) == len(list(xid.broken(XIDS)))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("145, RLW_REMAP Nonfatal XC0 i0 Link 02", []),
        ("145, RLW_REMAP Fatal XC0 i0 Link 02", ["Xid 145 of GPU 0000:5f:00: a fatal NVLink error"]),
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", []),
    ],
)
def test_errors_whose_line_says_how_bad_they_are(line: str, said: list[str]) -> None:
    assert list(xid.broken(f"NVRM: Xid (PCI:0000:5f:00): {line}")) == said


def test_healthy_gpus_pass() -> None:
    assert gpus(EIGHT) == []
    assert gpus(EIGHT.replace("33\n", "[N/A]\n")) == [], "the values do not matter"


def test_a_gpu_that_needs_a_reset_is_named() -> None:
    """The check asks for a column that is recorded in this state. The exit code is not known."""
    needs, well = (line.split(", ")[1] for line in (DATA / "gpu-requires-reset.txt").read_text().splitlines()[-2:])
    (check,) = [check for check in checks.QUICK if check.name == "GPUs"]
    assert "--query-gpu=index,temperature.gpu" in check.argv
    for code in (0, 1):
        assert gpus(EIGHT.replace("35", needs).replace("36", well), code) == ["GPU 5 requires a reset"]


def remapped(failed: str) -> str:
    """The columns that the check asks for, of the record's GPUs: the last one has this value."""
    rows = [
        line.split(", ") for line in (DATA / "remapped-rows.txt").read_text().splitlines() if line.startswith("GPU")
    ]
    values = [*(row[-1] for row in rows[:-1]), failed]
    return "".join(
        f"00000000:{bus}:00.0, {value}\n" for bus, value in zip(("54", "55", "D6", "D7"), values, strict=True)
    )


@pytest.mark.parametrize(("value", "fails"), [("No", 0), ("Yes", 1), ("0", 0), ("1", 1), ("[N/A]", 0)])
def test_memory_that_could_not_be_replaced_names_its_gpu(value: str, fails: int) -> None:
    said = ["GPU 00000000:D7:00.0 could not replace a broken row of its memory"]
    assert list(checks.memory(Answer(0, remapped(value)), P4DE)) == said * fails
    assert list(checks.memory(Answer(2, remapped(value)), P4DE)) == [], "an older driver does not know the option"


@pytest.mark.parametrize("row", ["[GPU is lost], [GPU is lost]", "7, [GPU is lost]", *LOST, ""])
def test_a_lost_gpu_is_missed(row: str) -> None:
    assert gpus(EIGHT.replace("7, 37", row)) == ["nvidia-smi lists 7 of 8 GPUs"]


def test_a_driver_that_does_not_work_says_why() -> None:
    (said,) = gpus(record("nvidia-smi/no-driver.txt"), 9)
    assert said.startswith("nvidia-smi failed: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA")
    assert gpus(record("nvidia-smi/no-devices.txt"), 6) == ["nvidia-smi lists 0 of 8 GPUs"]
    assert gpus("", None) == ["nvidia-smi did not answer within 60 s"]


def started(*argv: str) -> Answer:
    ((_, answer),) = look.ask(P4DE, [shown(*argv)], 9.0)
    return answer


def test_a_gpu_node_without_a_working_nvidia_smi_is_broken(tmp_path: Path) -> None:
    """It is part of the driver."""
    broken = tmp_path / "nvidia-smi"
    broken.touch(0o644)
    said = "nvidia-smi failed: it cannot be started: "
    assert list(checks.gpus(started(f"{tmp_path}/none"), P4DE)) == [f"{said}No such file or directory"]
    assert list(checks.gpus(started(str(broken)), P4DE)) == [f"{said}Permission denied"]
    (fault,) = checks.gpus(started("sh", "-c", "echo 'libnvidia-ml.so.1: cannot open' >&2; exit 127"), P4DE)
    assert fault == "nvidia-smi failed: libnvidia-ml.so.1: cannot open"


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
def test_a_node_without_room_for_a_process_proves_nothing(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **more: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    for judge in (checks.gpus, checks.memory, checks.efa, checks.mounts, checks.nvlink):
        assert list(judge(started("nvidia-smi"), P4DE)) == []


def nvlink(text: str, code: int = 0) -> list[str]:
    return list(checks.nvlink(Answer(code, text), P4DE))


def test_an_inactive_link_is_named() -> None:
    assert nvlink(LINKS) == []
    broken = LINKS.replace("Link 5: 25 GB/s", "Link 5: <inactive>")
    assert nvlink(LINKS.replace("GPU 0", "GPU 1") + broken) == ["GPU 0: NVLink 5 is inactive"]
    assert nvlink("localcloud: not played here", 97) == [], "an answer that says nothing proves nothing"


@pytest.mark.parametrize("code", [0, 255])
@pytest.mark.parametrize("words", ["NVML: Unable to retrieve NVLink", "NVML:Unable to retrieve Nvlink"])
def test_a_gpu_without_any_active_link_is_named(words: str, code: int) -> None:
    text = NO_LINKS.replace("NVML: Unable to retrieve NVLink", words)
    assert nvlink(LINKS + text + LINKS.replace("GPU 0", "GPU 3"), code) == ["GPU 2: all NVLinks are inactive"]


def test_a_gpu_that_prints_no_links_is_no_fault() -> None:
    """A healthy GPU whose NVLink leads nowhere, such as an A100 PCIe card without a bridge, prints the same sentence:
    only nodes behind NVSwitch are checked."""
    assert nvlink(NO_LINKS.partition("NVML")[0]) == []
    (check,) = [check for check in checks.QUICK if check.name == "NVLink"]
    assert check.applies(P4DE) and not check.applies(replace(P4DE, nvlink=False))


@pytest.mark.parametrize("name", ["p4d-4efa-libfabric1.11-rdm", "p4de-4efa-libfabric1.19-rdm"])
def test_efa_interfaces_are_counted_once_each(name: str) -> None:
    text = record(f"fi_info/{name}.txt")
    assert list(checks.efa(Answer(0, text), P4DE)) == []
    more = facts.Facts(efa_interfaces=5)
    assert list(checks.efa(Answer(0, text), more)) == ["fi_info lists 4 of 5 EFA interfaces"]


def test_without_any_efa_interface_the_node_fails() -> None:
    none = Answer(61, record("fi_info/no-data.txt"))
    assert list(checks.efa(none, P4DE)) == ["fi_info lists 0 of 4 EFA interfaces"]
    assert list(checks.efa(Answer(None), P4DE)) == []


def test_an_fi_info_that_does_not_work_proves_nothing() -> None:
    """libfabric's util/info.c, main: 61 is FI_ENODATA. 22 is FI_EINVAL, 127 the loader's or the shell's."""
    library = "fi_info: error while loading shared libraries: libefa.so.1: cannot open shared object file"
    assert list(checks.efa(started("no-such-command"), P4DE)) == []
    assert list(checks.efa(Answer(127, "", library), P4DE)) == []
    assert list(checks.efa(Answer(22, "", "fi_getinfo: -22 (Invalid argument)"), P4DE)) == []
    assert list(checks.efa(Answer(-9), P4DE)) == []
    few = record("fi_info/p4d-4efa-libfabric1.11-rdm.txt")
    assert list(checks.efa(Answer(0, few), facts.Facts(efa_interfaces=5))) != []


def test_a_mount_that_is_gone_is_named() -> None:
    # proc(5): mountinfo
    line = "36 35 98:0 / /home rw,noatime master:1 - nfs4 head:/home rw,errors=continue\n"
    assert list(checks.mounts(Answer(0, line), P4DE)) == ["storage: nothing is mounted on /fsx"]
    assert list(checks.mounts(Answer(None), P4DE)) == []


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The result of the only check."""
    (check,) = [check for check in checks.QUICK if check.name == "mounts"]
    lock = tmp_path / "lock"
    again = tuple(str(lock) if word == checks.LOCK else word for word in check.again)
    assert again != check.again and checks.LOCK in (BOOTSTRAP / "lib/runner.sh").read_text()
    monkeypatch.setattr(checks, "QUICK", [replace(check, again=again)])
    return lock


def test_a_job_whose_mounts_are_there_does_not_wait_for_the_boots_last_steps(lock: Path) -> None:
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        began = time.monotonic()
        assert look.look(lambda: facts.Facts(mounts=("/",))) == {"mounts": []}
        assert time.monotonic() - began < stretched(15)


def test_a_missing_mount_is_a_fault_only_while_nobody_mounts(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = {"mounts": ["storage: nothing is mounted on /no"]}
    node = facts.Facts(mounts=("/", "/no"))
    assert look.look(lambda: node) == fault
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(checks, "LIMIT_S", 0.5)
        assert look.look(lambda: node) == {"mounts": []}


def test_a_mount_that_another_program_restores_is_no_fault(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is from before the mount, and the second one comes when the other program has ended."""
    before = lock.with_name("before")
    before.write_text("36 35 98:0 / / rw - ext4 /dev/root rw\n")
    (check,) = checks.QUICK
    monkeypatch.setattr(checks, "QUICK", [replace(check, argv=("cat", str(before)))])
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        threading.Timer(0.5, held.close).start()
        assert look.look(lambda: facts.Facts(mounts=("/", "/proc"))) == {"mounts": []}


def test_a_mount_that_an_update_removes_is_no_fault(lock: Path) -> None:
    """The step storage_mounts holds the lock, unmounts what cluster.yaml no longer has, and writes the list last."""
    node = [facts.Facts(mounts=("/", "/no"))]

    def update() -> None:
        node[0] = facts.Facts(mounts=("/",))
        held.close()

    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        threading.Timer(0.5, update).start()
        assert look.look(lambda: node[0]) == {"mounts": []}


def test_the_nodes_facts_have_the_mounts_that_came_later(tmp_path: Path) -> None:
    path, mounts = tmp_path / "health.json", tmp_path / "storage.mounts"
    path.write_text(json.dumps({"gpus": 8, "efa_interfaces": 4, "nvlink": True, "mounts": ["/home"]}))
    assert facts.load(path, mounts).mounts == ("/home",)
    mounts.write_text("/fsx\n")
    assert facts.load(path, mounts) == P4DE


def shown(*argv: str) -> Check:
    return Check("one", argv, lambda node: True, lambda answer, node: iter([f"{answer.code} {answer.text}".strip()]))


def said_by(check: Check, limit_s: float) -> str:
    ((_, answer),) = look.ask(P4DE, [check], limit_s)
    return next(check.judge(answer, P4DE))


def test_a_command_that_hangs_holds_nothing_up() -> None:
    assert said_by(shown("sleep", "60"), 0.3) == "None"


def test_a_command_that_is_not_there_has_the_shells_code() -> None:
    assert said_by(shown("no-such-command"), 9.0).startswith("127 ")


def test_warnings_of_a_command_do_not_mix_with_what_it_answers() -> None:
    check = shown("sh", "-c", "echo warning >&2; echo '[]'")
    ((_, answer),) = look.ask(P4DE, [check], 9.0)
    assert (answer.text, answer.errors) == ("[]\n", "warning\n")
    assert list(checks.events(answer, P4DE)) == []


@pytest.mark.parametrize("text", ["{", '["x"]', '[{"State": "active"}]', '[{"NotBefore": "soon", "Code": "x"}]'])
def test_an_answer_that_cannot_be_read_proves_nothing(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    check = replace(shown(), name="EC2's events", judge=checks.events)
    assert look.judged(check, Answer(0, text), P4DE) == []
    assert capsys.readouterr().err.startswith("EC2's events: cannot read the output: ")


def test_what_was_proven_before_counts() -> None:
    def judge(answer: Answer, node: facts.Facts) -> Iterator[str]:
        yield "broken"
        raise KeyError("x")

    assert look.judged(replace(shown(), judge=judge), Answer(0), P4DE) == ["broken"]


class Metadata(BaseHTTPRequestHandler):
    """Version 2 of the metadata service: without a token, or without its lifetime, there is no answer (EC2's guide,
    instance-metadata-v2-how-it-works). EC2's guide has the document (monitoring-instances-status-check_sched)."""

    documents: ClassVar[dict[str, str]] = {}

    def do_PUT(self) -> None:
        has_lifetime = "X-aws-ec2-metadata-token-ttl-seconds" in self.headers
        self._answer("a token" if has_lifetime and self.path == "/latest/api/token" else None, 400)

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != "a token":
            return self._answer(None, 401)
        return self._answer(self.documents.get(self.path), 404)

    def _answer(self, text: str | None, otherwise: int) -> None:
        self.send_response(otherwise if text is None else 200)
        self.end_headers()
        self.wfile.write((text or "<title>an error</title>").encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def ask_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks ask this metadata service."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    changed = [
        replace(each, argv=tuple(url if word == imds.URL else word for word in each.argv)) for each in checks.QUICK
    ]
    assert changed != checks.QUICK
    monkeypatch.setattr(checks, "QUICK", changed)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Asks a metadata service as the check before each job does."""
    (check,) = [check for check in checks.QUICK if check.name == "EC2's events"]
    monkeypatch.setattr(checks, "QUICK", [check])
    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ask_at(f"http://127.0.0.1:{server.server_address[1]}/latest", monkeypatch)
        yield lambda: look.look(lambda: P4DE)[check.name]
        server.shutdown()


def test_an_event_that_ec2_plans_drains_the_node(
    events: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert events() == [], "no document"
    document = """[ {
      "NotBefore" : "21 Jan 2019 09:00:43 GMT",
      "Code" : "system-reboot",
      "Description" : "scheduled reboot",
      "EventId" : "instance-event-0d59937288b749b32",
      "NotAfter" : "21 Jan 2019 09:17:23 GMT",
      "State" : "active"
    } ]"""
    monkeypatch.setitem(Metadata.documents, "/latest/meta-data/events/maintenance/scheduled", document)
    assert events() == ["EC2 plans system-reboot at 21 Jan 2019 09:00:43 GMT"]


def test_a_node_without_gpus_runs_only_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_at("http://127.0.0.1:9", monkeypatch)
    plain = facts.Facts(mounts=("/",))
    assert look.look(lambda: plain) == {"EC2's events": [], "clock": [], "mounts": []}


@pytest.fixture
def drained(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What scontrol was asked, on a node that lost a GPU."""
    calls: list[list[str]] = []
    monkeypatch.setattr(slurm, "call", lambda argv: calls.append(list(argv)) or "")
    monkeypatch.setattr(facts, "load", lambda: P4DE)
    monkeypatch.setattr("socket.gethostname", lambda: "train-2")
    return calls


def test_a_node_that_fails_is_drained_with_the_reason(
    drained: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "look", lambda node: {"GPUs": ['nvidia-smi lists 7 of\n8 "GPUs"'], "EFA": [], "x": ["y"]})
    monkeypatch.setattr("sys.argv", ["look", "--drain"])
    assert look.main() == 1
    reason = "reason=health: nvidia-smi lists 7 of 8 'GPUs'; y"
    assert drained == [["scontrol", "update", "nodename=train-2", "state=power_down_asap", reason]]


def test_a_slurm_that_does_not_answer_still_gets_the_exit_code(
    drained: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(argv: object) -> str:
        raise slurm.SlurmError("not now")

    monkeypatch.setattr(slurm, "call", refuse)
    monkeypatch.setattr(look, "look", lambda node: {"GPUs": ["one is lost"]})
    monkeypatch.setattr("sys.argv", ["look", "--drain"])
    assert look.main() == 1


@pytest.mark.parametrize(
    ("faults", "before", "states", "says"),
    [
        (["storage: nothing is mounted on /fsx"], "health: storage: step=storage_mounts line=31: no", "DRAIN", False),
        (["storage: nothing is mounted on /fsx"], "health: storage: step=storage_mounts line=31: no", "IDLE", True),
        (["storage: nothing is mounted on /fsx"], "spot: EC2 will terminate it", "DRAIN", True),
        (["a GPU", "storage: nothing is mounted on /fsx"], "health: storage: step=x line=1: no", "DRAIN", True),
    ],
)
def test_the_cause_of_a_missing_mount_stays_the_nodes_reason(
    faults: list[str],
    before: str,
    states: str,
    says: bool,
    drained: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`compute.sh storage` has named it just before this check."""
    monkeypatch.setattr(slurm, "nodes", lambda names: [slurm.Node(names[0], frozenset({states}), before)])
    monkeypatch.setattr(look, "look", lambda node: {"x": faults})
    monkeypatch.setattr("sys.argv", ["look", "--drain"])
    assert look.main() == 1
    assert bool(drained) is says


# EC2's guide, monitoring-instances-status-check_sched
EVENT = """[ {"NotBefore" : "21 Jan 2019 09:00:43 GMT", "Code" : "system-reboot", "Description" : "scheduled reboot",
"EventId" : "instance-event-0d59937288b749b32", "NotAfter" : "21 Jan 2019 09:17:23 GMT", "State" : "active"} ]"""


def test_an_event_that_ec2_plans_drains_the_node_before_it_comes() -> None:
    begins = datetime(2019, 1, 21, 9, 0, 43, tzinfo=UTC)

    def events(text: str, code: int = 0, before: timedelta = timedelta(hours=23)) -> list[str]:
        return list(checks.events(Answer(code, text), P4DE, begins - before))

    assert events(EVENT) == ["EC2 plans system-reboot at 21 Jan 2019 09:00:43 GMT"]
    assert events(EVENT, before=timedelta(hours=-1)) == events(EVENT), "it may be late"
    assert events(EVENT, before=timedelta(hours=25)) == [], "the next job's check sees it"
    maintenance = EVENT.replace("system-reboot", "system-maintenance")
    assert events(maintenance) == ["EC2 plans system-maintenance at 21 Jan 2019 09:00:43 GMT"]
    assert events(EVENT.replace("active", "completed")) == events("[]\n") == events("HTTP Error 404", 1) == []


def table(*rows: tuple[str, str]) -> str:
    """As dcgmi/Diag.cpp writes it: DIAG_DATA has these widths, and a longer text continues in rows without a name."""
    lines = ((name * (at == 0), text[at : at + 45]) for name, text in rows for at in range(0, len(text), 45))
    return "".join(f"| {name:25} | {text:46} |\n" for name, text in lines)


def dcgm(*rows: tuple[str, str]) -> list[str]:
    return list(checks.dcgm(Answer(0, table(*rows)), P4DE))


MEMORY_FAILS = [
    ("memory", "Fail"),
    ("", "GPU0: Pass"),
    ("", "GPU1: Fail"),
    ("Warning: GPU1", "Failed to allocate memory for GPU 1: GPU0: Fail is only a part of this text"),
    ("", "GPU2: Fail"),
]


def test_dcgms_table_names_what_failed() -> None:
    """DCGM 4 has a row for each GPU, DCGM 3 one for the GPUs that passed and one for those that failed."""
    assert dcgm(("software", "Pass"), ("", "GPU0: Pass"), ("memory", "Skip"), ("", "GPU0: Skip")) == []
    failed = ["memory: Fail", "memory: GPU1: Fail", "memory: GPU2: Fail"]
    assert dcgm(*MEMORY_FAILS) == [f"dcgmi diag: {each}" for each in failed]
    third = dcgm(("GPU Memory", "Pass - GPUs: 1, 2, 3, 4, 5, 6, 7"), ("", "Fail - GPU: 0"), ("PCIe", "Fail - All"))
    assert third == ["dcgmi diag: GPU Memory: Fail - GPU: 0", "dcgmi diag: PCIe: Fail - All"]


# The message is in NVIDIA/NVSentinel#772. DCGM 4 prints Warn only in the row of the test (HelperDisplayDiagResult).
PERSISTENCE = (
    "Persistence Mode: Persistence mode for GPU 0 is disabled. Enable persistence mode by running "
    '"nvidia-smi -i <gpuId> -pm 1 " as root.'
)


def test_a_warning_of_dcgm_is_no_fault() -> None:
    software = [("software", "Warn"), ("", "GPU0: Fail"), ("Warning: GPU0", PERSISTENCE), ("", "GPU1: Fail")]
    assert dcgm(*software, ("Warning: GPU1", PERSISTENCE), ("memory", "Pass"), ("", "GPU0: Pass")) == []
    assert dcgm(*software, *MEMORY_FAILS) == dcgm(*MEMORY_FAILS), "the rows of another test"
    assert dcgm(("PCIe", "Warn - GPU: 0"), ("Warning", "Fail"), ("Info: GPU0", "Fail"), ("Error", "Fail")) == []


@pytest.mark.parametrize(
    ("test", "is_fault"),
    [
        ("Persistence Mode", False),
        ("Permissions and OS Blocks", False),
        ("Environment Variables", False),
        ("Graphics Processes", False),
        ("Page Retirement/Row Remap", True),
        ("Inforom", True),
        ("software", True),
    ],
)
def test_a_badly_set_up_node_is_distinguished_from_a_broken_gpu(test: str, is_fault: bool) -> None:
    """DCGM 3 prints Fail for the warnings of its software tests. DCGM 4 has one software test, and prints Warn."""
    assert bool(dcgm((test, "Fail"), ("Error", PERSISTENCE))) is is_fault


def test_a_long_reason_is_cut() -> None:
    said = look.reason([f"GPU {gpu} could not replace a broken row of its memory" for gpu in range(8)])
    assert len(said) <= look.LONGEST_REASON + len("health: ") and said.endswith("…")


def test_it_ends_although_a_command_hangs(tmp_path: Path) -> None:
    """As a program: nothing waits for the hanging child."""
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    code = (
        "import os, sys; from gpucluster_node.health import checks, look; checks.LIMIT_S = 0.3;"
        "from gpucluster_node.health.facts import Facts;"
        "print(look.look(lambda: Facts(gpus=1)), flush=True); os._exit(0)"
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": "bootstrap"}
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        ["python3", "-c", code], env=environment, cwd=root, capture_output=True, text=True, timeout=20, check=True
    )
    assert "did not answer within" in done.stdout
