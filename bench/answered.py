"""`python -m bench.answered URL HOST_KEY JOBS VERB...`: gpucluster, with AWS's answers given.

Makes the same clients of AWS and the same SSH connection as any call. URL: a websocket that leads to an SSH server."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import urlsplit

SERVICES = ("cloudformation", "ec2", "ssm", "ec2-instance-connect")


def main(url: str, host_key: str, folder: str, words: list[str]) -> int:
    from gpucluster import account, start
    from gpucluster.cluster import aws

    class Door(aws.HeadDoor):
        def host_key(self) -> str:
            return host_key

        def push_key(self, public_key: str) -> None:
            pass

        def tunnel_url(self) -> str:
            assert urlsplit(self._signed(url)).scheme == "ws"
            return url

    def door(self: aws.Aws) -> Any:
        for service in SERVICES:
            self.client(service)
        return Door(self, "i-1", "10.0.0.1", "eice-1")

    aws.Aws.door = door  # type: ignore[method-assign]
    account.jobs = lambda: folder
    sys.argv = ["gpucluster", *words]
    return start.main()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4], sys.argv[4:]))
