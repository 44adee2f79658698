"""Credentials that nodes serve to jobs: renewed in time, in the form that AWS's SDK accepts."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from botocore.credentials import ContainerProvider
from botocore.exceptions import CredentialRetrievalError, EndpointConnectionError
from botocore.session import get_session
from botocore.stub import Stubber
from gpucluster_node import fleet
from gpucluster_node.jobs import role
from gpucluster_node.jobs.credentials import PATH, Server, answer, passed
from gpucluster_node.jobs.role import Credentials, Keeper, NoCredentials, NoRole

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
ARN = "arn:aws:iam::123456789012:role/Mine-StorageJobsRole"
HOUR = timedelta(hours=1)
UNREACHABLE = EndpointConnectionError(endpoint_url="https://sts.us-east-1.amazonaws.com")


class Aws:
    """STS and a clock: each hour-long session has a number; `fails` is raised in its place."""

    def __init__(self) -> None:
        self.now, self.asked, self.fails = START, 0, None
        self.mark: str | OSError = "first"

    def take(self) -> Credentials:
        self.asked += 1
        if self.fails:
            raise self.fails
        return Credentials(ARN, f"ASIA{self.asked}", "secret", "token", self.now + HOUR)

    def keeper(self) -> Keeper:
        return Keeper(self.take, lambda: self.now, self.read_mark)

    def read_mark(self) -> str:
        if isinstance(self.mark, OSError):
            raise self.mark
        return self.mark

    def later(self, **by: float) -> None:
        self.now += timedelta(**by)


@pytest.fixture
def aws() -> Aws:
    return Aws()


def test_credentials_are_kept_until_half_an_hour_before_their_end(aws: Aws) -> None:
    keeper = aws.keeper()
    assert [keeper.get().access_key_id for _ in range(3)] == ["ASIA1"] * 3
    aws.later(minutes=29)
    assert keeper.get().access_key_id == "ASIA1"
    aws.later(minutes=2)
    assert (keeper.get().access_key_id, aws.asked) == ("ASIA2", 2)


def test_many_ranks_ask_once(aws: Aws) -> None:
    keeper = aws.keeper()
    threads = [threading.Thread(target=keeper.get) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert aws.asked == 1


def test_valid_credentials_are_served_while_aws_does_not_answer(aws: Aws) -> None:
    keeper = aws.keeper()
    keeper.get()
    aws.fails = UNREACHABLE
    aws.later(minutes=50)
    assert keeper.get().access_key_id == "ASIA1"
    assert keeper.get().access_key_id == "ASIA1" and aws.asked == 2  # not again at once
    aws.later(minutes=11)
    with pytest.raises(NoCredentials, match="could not be assumed: Could not connect"):
        keeper.get()
    aws.fails = None
    aws.later(seconds=6)
    assert keeper.get().access_key_id == "ASIA4"


def test_credentials_are_renewed_in_advance_after_the_first_request(aws: Aws) -> None:
    keeper = aws.keeper()
    keeper.renew()
    assert aws.asked == 0
    keeper.get()
    aws.later(minutes=31)
    keeper.renew()
    assert aws.asked == 2


def test_a_removed_role_is_no_longer_served_and_a_new_one_is_found(aws: Aws) -> None:
    keeper = aws.keeper()
    aws.fails = NoRole("the cluster file has no s3_access")
    assert answer(keeper, PATH) == (404, {"code": "NoRole", "message": "the cluster file has no s3_access"})
    aws.fails = None
    aws.later(seconds=6)
    status, document = answer(keeper, PATH)
    assert (status, document["AccessKeyId"], document["RoleArn"]) == (200, "ASIA2", ARN)
    aws.fails = NoRole("the cluster file has no s3_access")
    aws.later(minutes=31)
    assert answer(keeper, PATH)[0] == 404


def test_credentials_of_a_role_that_is_gone_are_given_to_nobody(aws: Aws) -> None:
    """AWS refuses them, also if a new role has the name of the former."""
    keeper = aws.keeper()
    keeper.follow()
    assert keeper.get().access_key_id == "ASIA1"
    aws.mark, aws.fails = "", NoRole("the cluster file has no s3_access")
    keeper.follow()
    with pytest.raises(NoRole):
        keeper.get()
    aws.mark, aws.fails = "second", None
    keeper.follow()
    assert keeper.get().access_key_id == "ASIA3"
    keeper.follow()
    assert (keeper.get().access_key_id, aws.asked) == ("ASIA3", 3)


def test_credentials_are_kept_while_the_head_node_does_not_answer(aws: Aws) -> None:
    keeper = aws.keeper()
    keeper.follow()
    keeper.get()
    for mark in (OSError("stale file handle"), "first"):
        aws.mark = mark
        keeper.follow()
    assert (keeper.get().access_key_id, aws.asked) == ("ASIA1", 1)


@pytest.fixture
def served(aws: Aws) -> Iterator[tuple[Aws, str]]:
    """An SDK's environment variable, of a server on a port of its own."""
    server = Server(aws.keeper(), socket.create_server(("127.0.0.1", 0)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield aws, f"http://127.0.0.1:{server.socket.getsockname()[1]}{PATH}"
    server.shutdown()
    server.server_close()


def ask(url: str) -> object:
    return ContainerProvider(environ={"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}).load()


def test_the_sdk_accepts_the_credentials(served: tuple[Aws, str]) -> None:
    aws, url = served
    aws.now = datetime.now(UTC)
    found = ask(url).get_frozen_credentials()
    assert (found.access_key, found.secret_key, found.token) == ("ASIA1", "secret", "token")


def test_the_sdk_shows_why_there_are_no_credentials(served: tuple[Aws, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    aws, url = served
    aws.fails = NoRole("the cluster file has no s3_access")
    with pytest.raises(CredentialRetrievalError, match="no s3_access"):
        ask(url)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Stubber]]:
    """SSM and STS, which answer what a test says."""
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1"}
    made = {name: get_session().create_client(name, **keys) for name in ("ssm", "sts")}
    monkeypatch.setattr(role, "client", made.__getitem__)
    stubs = {name: Stubber(each) for name, each in made.items()}
    for stub in stubs.values():
        stub.activate()
    yield stubs
    for stub in stubs.values():
        stub.assert_no_pending_responses()


CLUSTER = fleet.Fleet("Mine", "mine.internal", "/gpucluster/Mine/", ())
PARAMETER = {"Name": "/gpucluster/Mine/jobs"}


def test_the_role_is_the_one_that_the_deployment_made(clients: dict[str, Stubber]) -> None:
    value = {"Parameter": {"Value": json.dumps({"role_arn": ARN})}}
    clients["ssm"].add_response("get_parameter", value, PARAMETER)
    answered = {"AccessKeyId": "ASIA" + "1" * 12, "SecretAccessKey": "s", "SessionToken": "t", "Expiration": START}
    session = {"RoleArn": ARN, "RoleSessionName": role.socket.gethostname()}
    clients["sts"].add_response("assume_role", {"Credentials": answered}, session)
    taken = role.take(CLUSTER)
    assert taken.document()["Expiration"] == "2026-11-21T12:00:00Z"


def test_a_cluster_without_such_a_role_says_so(clients: dict[str, Stubber]) -> None:
    clients["ssm"].add_client_error("get_parameter", "ParameterNotFound", expected_params=PARAMETER)
    with pytest.raises(NoRole, match="no s3_access"):
        role.take(CLUSTER)


def test_the_server_takes_no_port_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user could take it first. systemd names the process that it has passed a socket to: sd_listen_fds(3)."""
    monkeypatch.setenv("LISTEN_PID", "1")
    with pytest.raises(SystemExit, match="systemd has passed no socket"):
        passed()
