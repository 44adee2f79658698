"""Imports every module of `gpucluster`, and forks a process for each command that comes in at a socket."""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import random
import signal
import socket
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module

import boto3
import botocore.loaders

import gpucluster
from gpucluster.cli import main

SERVICES = ("cloudformation", "ec2", "s3", "ssm", "sts")


def warm() -> None:
    """Also AWS's descriptions of its services, which botocore would read for each client."""
    for module in pkgutil.walk_packages(gpucluster.__path__, "gpucluster."):
        if not module.name.endswith(("__main__", ".start")):
            import_module(module.name)
    import_module("paramiko")
    loader = botocore.loaders.JSONFileLoader
    loader.load_file = cache(loader.load_file)
    session = boto3.Session(aws_access_key_id="none", aws_secret_access_key="none", region_name="us-east-1")
    for service in SERVICES:
        session.client(service)
    gc.collect()
    gc.freeze()


def serve(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            os._exit(attend(connection))
        connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def attend(connection: socket.socket) -> int:
    """Says the command's process id; and when it has ended its exit code, and the CPU seconds of all its processes."""
    size, streams, _, _ = socket.recv_fds(connection, 10, 3)
    with connection.makefile("rb") as file:
        request = json.loads(file.read(int(size)))
    pid = os.fork()
    if pid == 0:
        connection.close()
        os._exit(command(request, streams))
    connection.sendall(b"%d\n" % pid)
    _, status, used = os.wait4(pid, 0)
    connection.sendall(b"%d %.2f\n" % (os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime))
    return 0


def command(request: dict, streams: list[int]) -> int:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    random.seed()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = ["gpucluster", *request["arguments"]]
    code = main()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    warm()
    serve(socket.socket(fileno=int(sys.argv[1])))
