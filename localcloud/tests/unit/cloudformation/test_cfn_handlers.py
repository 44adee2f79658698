"""What the handlers change in place, against CloudFormation's own schemas."""

from __future__ import annotations

import pytest

from localcloud.cloudformation import schemas
from localcloud.cloudformation.resources import supported_types
from localcloud.cloudformation.resources.registry import handler_for

BY_GUIDE = {"AWS::EC2::SubnetRouteTableAssociation": {"RouteTableId"}}
"""The user guide says "No interruption" of them."""


@pytest.mark.parametrize("name", supported_types())
def test_tags_change_in_place_where_the_schema_says_so_and_nothing_does_that_it_excludes(name: str) -> None:
    schema, handler = schemas.of(name) or {}, handler_for(name)
    tagging = schema.get("tagging") or {}
    tags = str(tagging.get("tagProperty", "")).removeprefix("/properties/")
    if tags in schema.get("properties", {}) and tagging["tagUpdatable"]:
        assert tags in handler.updatable
    created = {path.removeprefix("/properties/") for path in schema.get("createOnlyProperties", ())}
    assert handler.updatable & created == BY_GUIDE.get(name, set())
