"""Whose an access key is, and its secret: the cloud's own, which is the administrator's, a session's, a user's."""

from __future__ import annotations

from localcloud import clients, roles
from localcloud.roles import Session
from localcloud.runtime import current
from localcloud.signatures import Held
from localcloud.state import ACCESS_KEY_ID


def held(access_key_id: str) -> Held | None:
    """None where the cloud has given no such key."""
    if access_key_id == ACCESS_KEY_ID:
        return Held(clients.secret()) if clients.secret() else None
    session = current().sessions.of_key(access_key_id)
    if session:
        return Held(session.credentials.secret_access_key, session.credentials.session_token, session.until)
    secret = roles.secret_of_user(access_key_id)
    return Held(secret) if secret else None


def session_of(access_key_id: str) -> Session | None:
    """Who is held to policies; None for the administrator."""
    if access_key_id == ACCESS_KEY_ID:
        return None
    return current().sessions.of_key(access_key_id) or roles.user_session(access_key_id)
