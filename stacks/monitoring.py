"""What is watched: log groups, a dashboard, alarms."""

from __future__ import annotations

from constructs import Construct

from stacks.context import Context


class Monitoring(Construct):
    def __init__(self, scope: Construct, id_: str, *, context: Context) -> None:
        super().__init__(scope, id_)
        self.context = context
