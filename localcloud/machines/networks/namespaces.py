"""Sockets in another network namespace than that of the process that uses them.

A socket stays in the namespace in which it was created. So a short-lived thread enters the namespace, creates the
socket and ends; no other thread of the process leaves its own namespace.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

CLONE_NEWNET = 0x40000000
LISTEN_BACKLOG = 256

_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


def inside(netns: str, make: Callable[[], T]) -> T:
    """The result of `make()`, called in the named network namespace (a file in /run/netns)."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def enter() -> None:
        try:
            _enter(netns)
            outcome.append(make())
        except BaseException as error:  # noqa: BLE001 - handed to the caller, who is in another thread
            failure.append(error)

    thread = threading.Thread(target=enter, name=f"netns-{netns}", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def _enter(netns: str) -> None:
    descriptor = os.open(f"/run/netns/{netns}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns into network namespace {netns!r} failed")
    finally:
        os.close(descriptor)


def listen_tcp(netns: str, address: str, port: int) -> socket.socket:
    def make() -> socket.socket:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(LISTEN_BACKLOG)
        return listener

    return inside(netns, make)


def bind_udp(netns: str, address: str, port: int) -> socket.socket:
    def make() -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bound.bind((address, port))
        return bound

    return inside(netns, make)


def connect_tcp(netns: str, address: str, port: int, timeout_s: float = 5.0) -> socket.socket:
    def make() -> socket.socket:
        connection = socket.create_connection((address, port), timeout=timeout_s)
        connection.settimeout(None)
        return connection

    return inside(netns, make)
