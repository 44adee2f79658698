"""Serves the jobs' credentials to this machine's programs, like a container agent on ECS.

usage: credentials

systemd listens on the port and passes the socket (sd_listen_fds(3)), so that no user can take the port while this
program restarts: who answers there determines with whose rights everybody's programs sign.

The metadata service answers only root, so no job can use the node's role. Jobs have
AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:9911/credentials instead, which every AWS SDK, the command line and
s3torchconnector use automatically. In clusters without s3_access it answers 404 with the reason.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from gpucluster_node import fleet
from gpucluster_node.aws import JOB_CREDENTIALS_URL
from gpucluster_node.jobs import role
from gpucluster_node.jobs.role import Keeper, NoCredentials, NoRole
from gpucluster_node.log import start_logging

_URL = urlsplit(JOB_CREDENTIALS_URL)
ADDRESS = (str(_URL.hostname), int(_URL.port or 80))
_FIRST_PASSED = 3
PATH = _URL.path
FOLLOW_INTERVAL_S = 5
ROUNDS_A_MINUTE = 12

log = logging.getLogger("credentials")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, keeper: Keeper, listening: socket.socket) -> None:
        self.keeper = keeper
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 10

    def do_GET(self) -> None:
        status, document = answer(self.server.keeper, self.path)
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Does not log requests, because every rank sends many."""


def passed() -> socket.socket:
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        raise SystemExit("error: systemd has passed no socket: start gpucluster-credentials.socket")
    return socket.socket(fileno=_FIRST_PASSED)


def answer(keeper: Keeper, path: str) -> tuple[int, dict[str, str]]:
    if path.partition("?")[0] != PATH:
        return 404, {"code": "NotFound", "message": f"this server has only {PATH}"}
    try:
        return 200, keeper.get().document()
    except NoRole as error:
        return 404, {"code": "NoRole", "message": str(error)}
    except NoCredentials as error:
        return 503, {"code": "NoCredentials", "message": str(error)}


def _keep_renewed(keeper: Keeper) -> None:
    """It looks for another role in a file, and so more often."""
    for number in itertools.count():
        time.sleep(FOLLOW_INTERVAL_S)
        keeper.follow()
        if number % ROUNDS_A_MINUTE == 0:
            keeper.renew()


def main() -> None:
    start_logging()
    cluster = fleet.load()
    keeper = Keeper(lambda: role.take(cluster))
    server = Server(keeper, passed())
    status, document = answer(keeper, PATH)
    log.info("%s", f"jobs have {document['RoleArn']}" if status == 200 else document["message"])
    threading.Thread(target=_keep_renewed, args=(keeper,), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
