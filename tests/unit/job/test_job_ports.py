"""Ports that a job reserves on a node, with real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucluster_job import network
from gpucluster_job.network import Port


@pytest.fixture(autouse=True)
def few_ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[range]:
    """Another range than that of jobs on this machine; ids that differ by a multiple of 50 start at the same port."""
    monkeypatch.setattr(network, "FIRST_PORT", 19100)
    monkeypatch.setattr(network, "LAST_PORT", 19149)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    yield range(19100, 19150)


def test_two_ports_of_a_job_and_those_of_another_job_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = [Port(), Port()]
    monkeypatch.setenv("SLURM_JOB_ID", "57")
    assert len({each.number for each in [*ports, Port()]}) == 3


@pytest.mark.parametrize("options", [(), (socket.SO_REUSEPORT,)], ids=["plain", "as gRPC"])
@pytest.mark.parametrize("where", [(socket.AF_INET, ""), (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")])
def test_the_jobs_server_takes_the_reserved_port(
    where: tuple[socket.AddressFamily, str], options: tuple[int, ...]
) -> None:
    reserved = Port()
    with socket.socket(where[0]) as server:
        for option in (socket.SO_REUSEADDR, *options):
            server.setsockopt(socket.SOL_SOCKET, option, 1)
        server.bind((where[1], reserved.number))
        server.listen()
        with socket.create_connection(("127.0.0.1", reserved.number), 5):
            assert Port().number != reserved.number


def test_a_port_on_which_a_program_listens_is_left_out(few_ports: range) -> None:
    with socket.create_server(("", few_ports[7])):
        assert Port().number == few_ports[8]


def test_a_full_range_costs_no_job(few_ports: range) -> None:
    held = [Port() for _ in few_ports]
    assert {each.number for each in held} == set(few_ports)
    assert Port().number not in few_ports


def test_no_name_in_a_shared_folder_takes_a_port(few_ports: range) -> None:
    """Another user may create any name in /tmp: these are of the lock files that jobs once had."""
    names = [Path(f"/tmp/gpucluster-port-{port}") for port in few_ports]
    try:
        for name in names:
            name.mkdir()
        assert Port().number == few_ports[7]
    finally:
        for name in names:
            name.rmdir()
