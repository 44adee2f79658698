"""`notify`: who is told, and the file with the addresses."""

from __future__ import annotations

import json

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError, UsageError
from gpucluster.job import load, notices
from gpucluster.job.spec import JobSpec
from gpucluster.layout import expand
from gpucluster.submission import submit
from gpucluster.submission.prepare import of


def spec(*targets: str) -> JobSpec:
    return JobSpec(command=("python", "train.py"), name="digits", notify=targets)


def test_a_target_hears_everything_unless_it_says_of_what():
    assert [(each.name, each.events) for each in notices.targets(spec("email", "HOOK:failure,hang"))] == [
        ("email", ("start", "end", "failure", "hang")),
        ("HOOK", ("failure", "hang")),
    ]


@pytest.mark.parametrize("odd", ["https://hooks.slack.com/services/x", "me@example.org", "email:never", "HOOK:", ""])
def test_an_address_is_not_written_into_job_yaml(odd):
    with pytest.raises(ValueError, match="email, or the name of a variable"):
        spec(odd)


def test_the_file_has_the_addresses_and_only_the_user_reads_it():
    environment = {"HOOK": "https://hooks.slack.com/services/T/B/x"}
    (file,) = submit.notices_file(spec("email:failure", "HOOK"), environment, 98.0).values()
    found = json.loads(file.text)
    assert file.mode == 0o600 and found["name"] == "digits" and found["usd_per_hour"] == 98.0
    assert found["targets"] == [
        {"email": True, "events": ["failure"]},
        {"name": "HOOK", "url": environment["HOOK"], "events": ["start", "end", "failure", "hang"]},
    ]
    assert submit.notices_file(spec("HOOK"), {}, None) == {} == submit.notices_file(spec(), environment, None)


@pytest.mark.parametrize(("value", "said"), [(None, "HOOK is not set"), ("file:///etc/passwd", "HOOK has no address")])
def test_a_wrong_address_is_refused_and_not_shown(value, said):
    environment = {"OTHER": "x"} | ({"HOOK": value} if value else {})
    with pytest.raises(UsageError, match=said) as refused:
        submit.notices_file(spec("HOOK"), environment, None)
    assert "passwd" not in str(refused.value) + str(refused.value.hint)


CLUSTER = "name: T\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"


def read(tmp_path, monitoring: str = "") -> JobSpec:
    (tmp_path / "job.yaml").write_text("command: [python, train.py]\nnotify: email\n")
    return load(expand(loads(CLUSTER + monitoring)), tmp_path / "job.yaml", {})


def test_e_mail_needs_the_clusters_address(tmp_path):
    with pytest.raises(JobSpecError, match="notify: the cluster T has no address for e-mails"):
        read(tmp_path)
    assert read(tmp_path, "monitoring: {alarm_email: me@example.org}\n").notify == ("email",)


def test_slurm_tells_of_starts_and_ends(tmp_path):
    layout = expand(loads(CLUSTER + "monitoring: {alarm_email: me@example.org}\n"))
    prepared = of(layout, read(tmp_path, "monitoring: {alarm_email: me@example.org}\n"), tmp_path / "job.yaml", {})
    assert "#SBATCH --mail-type=BEGIN,END,FAIL,INVALID_DEPEND\n" in prepared.request.materialize()
    assert prepared.usd_per_hour == pytest.approx(5.672)


def test_an_array_has_one_file_for_all_elements(tmp_path):
    (tmp_path / "job.yaml").write_text("command: [python, train.py]\nnotify: HOOK\narray: 0-1\n")
    layout = expand(loads(CLUSTER))
    prepared = of(layout, load(layout, tmp_path / "job.yaml", {}), tmp_path / "job.yaml", {})
    more = submit.notices_file(prepared.spec, {"HOOK": "https://example.org/x"}, None)
    named = [name for name in submit.folder_files(prepared.request, {}, None, more) if "notify" in name]
    assert named == ["notify.json"]
