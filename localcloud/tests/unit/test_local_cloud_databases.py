"""The user data of a database's machine, and the certificates of the database and of the bundle's server."""

from __future__ import annotations

import base64
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.databases import guest, truststore
from localcloud.identity import authority
from localcloud.machines.rootfs import Root

HOST = "db.c0123456789a.us-east-1.rds.amazonaws.com"


def described(**changes: object) -> guest.Database:
    values = {
        "port": 3307,
        "user": "slurm",
        "password": "it's a \\ secret",
        "schema": None,
        "parameters": {"require_secure_transport": "1"},
        "certificate": authority.Certificate("KEY\n", "CERTIFICATE\n"),
    }
    return guest.Database(**(values | changes))  # type: ignore[arg-type]


def test_the_parameter_groups_values_win() -> None:
    lines = guest.configuration(described(parameters={"skip_name_resolve": "0"})).splitlines()
    assert lines[0] == "[mariadbd]" and "port=3307" in lines
    assert lines[-1] == "skip_name_resolve=0"


@pytest.mark.parametrize("value", ["{DBInstanceClassMemory*3/4}", "1\nplugin_load_add=other"])
def test_formulas_and_values_of_several_lines_are_left_out(value: str) -> None:
    assert "innodb_buffer_pool_size" not in guest.configuration(
        described(parameters={"innodb_buffer_pool_size": value})
    )


def test_the_master_user_is_created_before_the_server_listens_and_is_not_root() -> None:
    create, grant = guest.init_sql(described()).splitlines()
    assert create == "CREATE USER IF NOT EXISTS 'slurm'@'%' IDENTIFIED BY 'it''s a \\\\ secret';"
    assert "SUPER" not in grant and "FILE" not in grant and grant.endswith("WITH GRANT OPTION;")
    assert f"init_file={guest.FOLDER}/init.sql" in guest.configuration(described())


def test_a_requested_schema_is_created() -> None:
    assert guest.init_sql(described(schema="a`b")).splitlines()[-1] == "CREATE DATABASE IF NOT EXISTS `a``b`;"


def test_user_data_writes_files_unchanged(tmp_path: Path) -> None:
    """The script, run with another `install` and `systemctl`."""
    for name, text in {
        "install": f'#!/bin/sh\nshift 7\nmkdir -p "{tmp_path}$(dirname "$2")"\ncat >"{tmp_path}$2"\n',
        "systemctl": "#!/bin/sh\n",
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash"], input=guest.user_data(described()), env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True,
        capture_output=True,
    )  # fmt: skip
    assert done.stderr == b""
    assert (tmp_path / guest.FOLDER[1:] / "init.sql").read_text() == guest.init_sql(described())
    assert (tmp_path / guest.FOLDER[1:] / "key.pem").read_text() == "KEY\n"


@pytest.fixture(scope="module")
def bundle_port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = truststore.serve(listener)
    yield listener.getsockname()[1]
    server.shutdown()
    server.server_close()
    listener.close()


def fetch(port: int, path: str, trusted: str, host: str = truststore.HOST) -> bytes:
    context = ssl.create_default_context(cadata=trusted)
    plain = socket.create_connection(("127.0.0.1", port), timeout=60)
    with plain, context.wrap_socket(plain, server_hostname=host) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        return b"".join(iter(lambda: connection.recv(4096), b""))


@pytest.mark.parametrize("path", ["/us-east-1/us-east-1-bundle.pem", "/global/global-bundle.pem"])
def test_the_bundle_contains_the_databases_authority(bundle_port: int, path: str) -> None:
    head, _, body = fetch(bundle_port, path, authority.web().certificate).partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0] and body.decode() == authority.rds().certificate
    assert body.decode() != authority.web().certificate


@pytest.mark.parametrize("path", ["/", "/us-east-1/eu-west-1-bundle.pem", "/us-east-1/us-east-1-bundle.p7b"])
def test_other_paths_are_not_found(bundle_port: int, path: str) -> None:
    assert b" 404 " in fetch(bundle_port, path, authority.web().certificate).splitlines()[0]


@pytest.mark.parametrize(
    ("trusted", "host"),
    [(authority.rds().certificate, truststore.HOST), (authority.web().certificate, "truststore.example")],
    ids=["another authority", "another name"],
)
def test_the_bundles_server_is_not_trusted(bundle_port: int, trusted: str, host: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        fetch(bundle_port, "/global/global-bundle.pem", trusted, host)


def test_a_name_longer_than_a_subjects_limit_gets_a_certificate() -> None:
    issued = authority.rds().issue(f"{'a' * 63}.{HOST}")
    der = base64.b64decode("".join(issued.certificate.splitlines()[1:-1]))
    assert f"{'a' * 63}.{HOST}".encode() in der


def test_a_guest_gets_an_authority_only_once(tmp_path: Path) -> None:
    root = Root(tmp_path)
    bundle = root.path / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True)
    bundle.write_text("DEBIAN\n")
    for certificates in ("", "OURS\n", "OURS\n"):
        root.trust(certificates)
    assert bundle.read_text() == "DEBIAN\nOURS\n"
    assert [path.read_text() for path in root.path.rglob("localcloud.crt")] == ["OURS\n"]
