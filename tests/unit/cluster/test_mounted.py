"""`gpucluster status` on file systems: those that the head has mounted, and those that do not answer."""

from __future__ import annotations

import re
import subprocess

from gpucluster import config
from gpucluster.head import mounted

CONFIG = config.loads(
    """
name: Mine
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.xlarge], max_nodes: 2}
storage:
  - {mount: /fsx, type: fsx-lustre, deployment: scratch-2, capacity_gib: 1200}
  - {mount: /efs, type: efs}
  - {mount: /gone, type: efs}
  - {mount: /dead, type: efs}
"""
)
OUTPUT = """/dev/nvme1n1 /home ext4 rw 0 0
10.0.0.9@tcp:/abc /fsx lustre rw 0 0
127.0.0.1:/ /efs nfs4 rw 0 0
127.0.0.1:/ /dead nfs4 rw 0 0

Mounted on 1B-blocks Avail Inodes IFree
/home 53687091200 26843545600 3276800 3000000
Mounted on 1B-blocks Avail Inodes IFree
/fsx 1288490188800 1073741824000 0 0
Mounted on 1B-blocks Avail Inodes IFree
/efs 9223372036854775807 9223372026117357567 - -
Mounted on 1B-blocks Avail Inodes IFree
/ 53687091200 26843545600 3276800 3000000
Mounted on 1B-blocks Avail Inodes IFree
/ 53687091200 26843545600 3276800 3000000
"""


def test_mounted_file_systems_and_those_that_do_not_answer() -> None:
    found = {each.path: each.words() for each in mounted.parse(OUTPUT, mounted.expected(CONFIG))}
    assert found == {
        "/home": "25 of 50 GiB free",
        "/fsx": "1000 of 1200 GiB free",
        "/efs": "10 GiB used",
        "/gone": "not mounted",
        "/dead": "its servers do not answer",
    }


def test_a_file_system_that_is_nearly_full_has_a_warning() -> None:
    for free, words in ((5_368_709_121, "5 of 50 GiB free"), (4 * 2**30, "4 of 50 GiB free (WARNING: 92 % full)")):
        output = OUTPUT.replace("53687091200 26843545600", f"53687091200 {free}")
        assert next(mounted.parse(output, mounted.expected(CONFIG))).words() == words


def test_a_file_system_without_inodes_is_full_although_it_has_space() -> None:
    """Each file takes one, and ext4 has a fixed number: a virtual environment has tens of thousands of small files."""
    for free, words in (
        (327_681, "25 of 50 GiB free"),
        (0, "25 of 50 GiB free (WARNING: 100 % of its inodes are used: each file and folder takes one)"),
    ):
        output = OUTPUT.replace("26843545600 3276800 3000000", f"26843545600 3276800 {free}", 1)
        assert next(mounted.parse(output, mounted.expected(CONFIG))).words() == words


def test_the_head_nodes_own_disk_is_shown_once_it_is_nearly_full() -> None:
    for free, words in ((5_368_709_121, []), (0, ["0 of 50 GiB free (WARNING: 100 % full)"])):
        output = re.sub(r"^/ .*", f"/ 53687091200 {free} 3276800 3000000", OUTPUT, flags=re.MULTILINE)
        found = mounted.parse(output, mounted.expected(CONFIG))
        assert [each.words() for each in found if each.path == "/"] == words
    assert mounted.argv(["/home"])[-2:] == ["/home", "/var/log"]


def test_the_reason_for_a_missing_lustre_client_is_shown() -> None:
    reason = "step=lustre_client line=14: FSx has no Lustre client for kernel 7.0.0-1014-aws of noble"
    output = OUTPUT.replace("10.0.0.9@tcp:/abc /fsx lustre rw 0 0\n", "").replace(
        "/fsx 1288490188800 1073741824000 0 0", "/ 1 1 0 0"
    )
    found = {
        each.path: each.words()
        for each in mounted.parse(f"{output}missing fsx-lustre {reason}\n", mounted.expected(CONFIG))
    }
    assert found["/fsx"] == f"not mounted ({reason})"
    assert found["/gone"] == "not mounted"


def test_the_command_answers_on_any_machine() -> None:
    """A path inside another mount does not count as mounted."""
    output = subprocess.run(
        mounted.argv(["/", "/proc", "/nowhere"]), capture_output=True, text=True, check=False
    ).stdout
    root, proc, nowhere = mounted.parse(output, {"/": "x", "/proc": "x", "/nowhere": "x"})
    assert root.inodes >= root.free_inodes and (proc.inodes, proc.free_inodes) == (0, 0)
    assert root.mounted and (root.size_bytes or 0) >= (root.free_bytes or 0) > 0
    assert (proc.mounted, nowhere.mounted, nowhere.size_bytes) == (True, False, None)
