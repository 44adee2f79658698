"""Stands in for the head node if nothing boots: it signals on the wait handle that a bundle is applied."""

from __future__ import annotations

import json
import threading
import urllib.request
from typing import Any


class Head(threading.Thread):
    """Answers each new bundle of a cluster on its wait handle, as a head node does."""

    def __init__(self, control_plane: Any, cluster: str, status: str = "SUCCESS", reason: str = "ready") -> None:
        super().__init__(daemon=True)
        self._ssm = control_plane.client("ssm")
        self._endpoint_url = control_plane.endpoint_url
        self._bundle = f"/gpucluster/{cluster}/bundle"
        self._answer = {"Status": status, "Reason": reason, "UniqueId": "head", "Data": "x"}
        self._ended = threading.Event()
        self.versions: list[str] = []

    def __enter__(self) -> Head:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        answered: set[str] = set()
        while not self._ended.wait(0.2):
            try:
                value = json.loads(self._ssm.get_parameter(Name=self._bundle)["Parameter"]["Value"])
            except self._ssm.exceptions.ParameterNotFound:
                continue
            if value["wait_handle_url"] not in answered:
                answered.add(value["wait_handle_url"])
                self.versions.append(value["version"])
                self._signal(value["wait_handle_url"])

    def _signal(self, url: str) -> None:
        here = url.replace("http://169.254.169.251", self._endpoint_url)
        body = json.dumps(self._answer).encode()
        urllib.request.urlopen(urllib.request.Request(here, method="PUT", data=body), timeout=60).close()
