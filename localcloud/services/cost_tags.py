"""Cost allocation tags, which budgets and reports can use once the payer has activated them."""

from __future__ import annotations

import json

import moto.ce.urls
from moto.ce.models import CostExplorerBackend
from moto.ce.responses import CostExplorerResponse

_active: dict[CostExplorerBackend, set[str]] = {}


class CostExplorer(CostExplorerResponse):
    def list_cost_allocation_tags(self) -> str:
        request = json.loads(self.body)
        asked, status = request.get("TagKeys"), request.get("Status", "Active")
        keys = sorted(_active.get(self.ce_backend, set())) if status == "Active" else []
        found = [key for key in keys if asked is None or key in asked]
        tags = [{"TagKey": key, "Type": "UserDefined", "Status": "Active"} for key in found]
        return json.dumps({"CostAllocationTags": tags})

    def update_cost_allocation_tags_status(self) -> str:
        active = _active.setdefault(self.ce_backend, set())
        for entry in json.loads(self.body)["CostAllocationTagsStatus"]:
            (active.add if entry["Status"] == "Active" else active.discard)(entry["TagKey"])
        return json.dumps({"Errors": []})


def install() -> None:
    moto.ce.urls.url_paths["{0}/$"] = CostExplorer.dispatch
