"""moto's dispatcher, which remembers what it would work out again for each request: half of a request's CPU time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from moto.core import responses, utils
from moto.moto_server.werkzeug_app import DomainDispatcherApplication

# The methods of a class of responses: moto inspects the whole class.
responses.method_names_from_class = lru_cache(maxsize=256)(utils.method_names_from_class)  # type: ignore[attr-defined]


class Dispatcher(DomainDispatcherApplication):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # It compares the host with the names of moto's folders, which it looks up on the disk.
        self.get_backend_for_host = lru_cache(maxsize=1024)(super().get_backend_for_host)  # type: ignore[method-assign]
