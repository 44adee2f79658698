"""The CDK command line and the local cloud's, as text; the records of local clusters."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gpucluster import shipped
from gpucluster.cluster import cdk, local_cloud
from gpucluster.errors import GpuClusterError, UsageError

RECORD = local_cloud.Record("http://127.0.0.1:5999", "mine", True, "secret")


def test_cdk_runs_with_this_python_and_the_installed_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = tmp_path / "node_modules/aws-cdk/bin/cdk"
    installed.parent.mkdir(parents=True)
    installed.touch()
    monkeypatch.setattr(cdk, "folder", lambda: tmp_path)
    argv = cdk.argv("deploy", "GpuCluster", config_file=Path("/x/cluster.yaml"), assembly=Path("/x/out"))
    assert argv[0].endswith("/bin/node") and argv[1] == str(installed)
    assert argv[2:4] == ["deploy", "GpuCluster"]
    assert "config=/x/cluster.yaml" in argv and argv[argv.index("--output") + 1] == "/x/out"
    path = cdk.environment({}, {"PATH": "/usr/bin"})["PATH"].split(":")
    assert path == [str(Path(sys.executable).parent), str(Path(argv[0]).parent), "/usr/bin"]


def test_the_cdk_command_line_is_pinned() -> None:
    """Newer ones have changed their output and their protocol with the library."""

    package = json.loads((shipped.ROOT / "package.json").read_text())
    lock = json.loads((shipped.ROOT / "package-lock.json").read_text())
    assert package["devDependencies"] == {"aws-cdk": "2.1148.1"}
    assert lock["packages"]["node_modules/aws-cdk"]["version"] == "2.1148.1"
    assert "resolved" not in str(lock), "a lock that names a registry's host works there only"


def test_without_the_cdk_command_line_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shipped, "ROOT", tmp_path)
    with pytest.raises(UsageError) as caught:
        cdk.argv("deploy", config_file=Path("x"), assembly=Path("y"))
    assert "make setup" in str(caught.value.hint)


def test_programs_for_a_local_cluster_do_not_get_the_users_profile() -> None:
    inherited = {"AWS_PROFILE": "work", "AWS_SESSION_TOKEN": "t", "HOME": "/root"}
    found = cdk.environment(local_cloud.environment(RECORD, region="eu-west-1"), inherited)
    assert found["AWS_ENDPOINT_URL"] == "http://127.0.0.1:5999"
    assert (found["AWS_ACCESS_KEY_ID"], found["AWS_REGION"], found["HOME"]) == ("localcloud", "eu-west-1", "/root")
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN"} & found.keys()


def test_a_cluster_on_aws_keeps_the_users_profile() -> None:
    found = cdk.environment(local_cloud.environment(None, region="eu-west-1"), {"AWS_PROFILE": "work"})
    assert (found["AWS_PROFILE"], found["AWS_REGION"]) == ("work", "eu-west-1")
    assert "AWS_ENDPOINT_URL" not in found


def test_a_record_is_kept_beside_the_cluster_file_until_the_end(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    assert local_cloud.read(file, "GpuCluster") is None
    local_cloud.write(file, "GpuCluster", RECORD)
    assert (tmp_path / ".gpucluster" / "GpuCluster.json").stat().st_mode & 0o777 == 0o600  # it holds the cloud's secret
    assert local_cloud.read(file, "GpuCluster") == RECORD
    assert local_cloud.read(file, "Other") is None and not local_cloud.ended(file, "GpuCluster")
    local_cloud.forget(file, "GpuCluster")
    assert local_cloud.read(file, "GpuCluster") is None and local_cloud.ended(file, "GpuCluster")


def test_the_local_clouds_own_error_is_passed_on() -> None:
    says = "print('building', file=sys.stderr); print('error: port 1 is in use', file=sys.stderr)"
    fails = f"import sys; {says}; sys.exit({{}})"
    messages: list[str] = []
    with pytest.raises(UsageError, match="^port 1 is in use$"):
        local_cloud.call([sys.executable, "-c", fails.format(2)], tell=messages.append)
    assert messages == ["building"]
    with pytest.raises(GpuClusterError) as caught:
        local_cloud.call([sys.executable, "-c", fails.format(1)], tell=messages.append)
    assert caught.value.exit_code == 1


def test_the_local_cloud_is_started_with_what_was_asked_for() -> None:
    argv = local_cloud.up_argv(name="mine", port=5999, image=None, wheels=Path("/w"))
    assert argv[1:] == ["-m", "localcloud", "up", "--name", "mine", "--port", "5999", "--wheels", "/w", "--detach"]


def test_a_stopped_cloud_has_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALCLOUD_ROOT", str(tmp_path))
    with pytest.raises(UsageError, match="no local cloud named 'none' runs"):
        local_cloud.secret_access_key("none")


def test_a_free_port_does_not_answer() -> None:
    assert local_cloud.running_at("http://127.0.0.1:1") is None
