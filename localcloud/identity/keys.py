"""The secret and the owner of an access key: the administrator (the cloud's own key), a session or a user."""

from __future__ import annotations

from localcloud.identity import roles
from localcloud.identity.roles import Session, Sessions
from localcloud.protocol.signatures import Held
from localcloud.state import ACCESS_KEY_ID


class Keys:
    def __init__(self, secret: str, sessions: Sessions) -> None:
        """`secret`: the administrator's."""
        self._secret = secret
        self._sessions = sessions

    def held(self, access_key_id: str) -> Held | None:
        """None if the cloud has issued no such key."""
        if access_key_id == ACCESS_KEY_ID:
            return Held(self._secret) if self._secret else None
        session = self._sessions.of_key(access_key_id)
        if session:
            return Held(session.credentials.secret_access_key, session.credentials.session_token, session.until)
        secret = roles.secret_of_user(access_key_id)
        return Held(secret) if secret else None

    def session_of(self, access_key_id: str) -> Session | None:
        """The caller whose policies apply; None for the administrator."""
        if access_key_id == ACCESS_KEY_ID:
            return None
        return self._sessions.of_key(access_key_id) or roles.user_session(access_key_id)
