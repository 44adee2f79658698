"""The credentials of a job's role, at the address that SDKs ask in a container: botocore's ContainerMetadataFetcher."""

from __future__ import annotations

import http.server
import json
import secrets
import socket

from localcloud.identity import roles
from localcloud.identity.roles import Sessions
from localcloud.machines.networks import listening
from localcloud.machines.spec import Credentials
from localcloud.runtime import Locks

SESSION = "SageMaker"
_PATH = "/v2/credentials/"


class Grants:
    """Who knows the path gets the credentials, as in ECS."""

    def __init__(self, sessions: Sessions, locks: Locks) -> None:
        self._sessions = sessions
        self._locks = locks
        self._roles: dict[str, str] = {}  # path -> the role's ARN

    def give(self, role_arn: str) -> str:
        """The path, which AWS_CONTAINER_CREDENTIALS_RELATIVE_URI names."""
        path = f"{_PATH}{secrets.token_hex(16)}"
        self._roles[path] = role_arn
        return path

    def take(self, path: str) -> None:
        self._roles.pop(path, None)

    def of(self, role_arn: str) -> Credentials | None:
        """None if the role was deleted meanwhile."""
        with self._locks.holding("sts"):
            role = next((each for each in list(roles.iam().roles.values()) if each.arn == role_arn), None)
            return self._sessions.of_service(role, SESSION) if role else None

    def answer(self, path: str) -> str | None:
        role_arn = self._roles.get(path)
        found = self.of(role_arn) if role_arn else None
        if found is None:
            return None
        return json.dumps(
            {
                "RoleArn": role_arn,
                "AccessKeyId": found.access_key_id,
                "SecretAccessKey": found.secret_access_key,
                "Token": found.session_token,
                "Expiration": found.expiration,
            }
        )


def serve(grants: Grants, listener: socket.socket) -> http.server.HTTPServer:
    """Answers on a listening socket in its own thread until the server is shut down."""

    class Handler(_Handler):
        pass

    Handler.grants = grants
    return listening.serve(listener, Handler, "container-credentials")


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = 30
    grants: Grants

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the path is a secret."""

    def do_GET(self) -> None:
        found = self.grants.answer(self.path)
        body = (found or "").encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
