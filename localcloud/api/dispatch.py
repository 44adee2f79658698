"""moto's dispatcher, which remembers what it would work out again for each request: half of a request's CPU time."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, cast

from moto.backends import SERVICE_NAMES
from moto.core import responses, utils
from moto.moto_server.werkzeug_app import DomainDispatcherApplication


class Dispatcher(DomainDispatcherApplication):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # The methods of a class of responses, for which moto inspects the whole class. A new cloud has new classes.
        names = lru_cache(maxsize=256)(utils.method_names_from_class)
        responses.method_names_from_class = names  # type: ignore[attr-defined]
        # moto compares the host with the names of its folders, which it looks up on the disk.
        self.get_backend_for_host = lru_cache(maxsize=1024)(super().get_backend_for_host)  # type: ignore[method-assign]

    def bind(self, services: Iterable[str]) -> None:
        """Lets these services answer for this cloud, also if the process makes another one. Others belong to the cloud
        that is the newest at their first request. `services`: as moto's backend_index names them."""
        for service in services:
            self.app_instances[service] = self.create_app(cast(SERVICE_NAMES, service))  # its type lacks some
