"""The resource types of the local cloud. Importing this package registers all of them."""

from __future__ import annotations

from localcloud.cloudformation.resources import (  # noqa: F401
    bootstrap,
    budgets,
    compute,
    data,
    databases,
    identity,
    launch,
    load_balancers,
    monitoring,
    names,
    network,
    routing,
    security_groups,
    signals,
    storage,
)
from localcloud.cloudformation.resources.registry import handler_for, supported_types

__all__ = ["handler_for", "supported_types"]
