"""A user fills /home, and Slurm's queue and accounts, which are on the same volume, are still kept."""

from __future__ import annotations

from bed import Bed

FILL = (
    "cd; i=0; for size in 8G 1G 64M 4M 256K 4K; do"
    " while fallocate -l $size full.$i 2>/dev/null; do i=$((i+1)); done; done;"
    " head -c 1M /dev/zero >full.more"
)


def test_a_full_home_costs_slurm_nothing(people: Bed) -> None:
    """ext4 keeps a hundredth for the database and Slurm (programs/bin/mount-home)."""
    try:
        full = people.of("alice").gpucluster("ssh", "--", "bash", "-c", FILL)
        assert full.returncode != 0 and "No space left on device" in full.stderr + full.stdout
        submit = ("sudo", "-u", "bob", "sbatch", "--parsable", "-D", "/tmp", "-o", "/dev/null", "--begin=now+1hour")
        job = people.ssh(*submit, "--wrap", "hostname").strip()
        people.ssh("sh", "-c", "sudo systemctl restart slurmctld; until scontrol ping | grep -q UP; do sleep 0.5; done")
        assert people.ssh("squeue", "-h", "-j", job, "-o", "%u %T").strip() == "bob PENDING"
        wait = f"for _ in $(seq 60); do sacct -nPX -j {job} -o User | grep -qx bob && exit 0; sleep 0.5; done; exit 1"
        people.ssh("sh", "-c", wait)
        people.ssh("scancel", job)
        assert people.gpucluster("status").returncode == 0
    finally:
        people.ssh("sudo", "-u", "alice", "bash", "-c", "rm -f ~alice/full.*")
