"""The cloud's stacks: finds them, starts operations on them, and manages exports between them."""

from __future__ import annotations

import logging
import re
import threading
import uuid
from collections.abc import Callable, Collection
from typing import Any

from localcloud.cloudformation import engine
from localcloud.cloudformation.errors import ValidationError
from localcloud.cloudformation.model import Output, Revision, Stack, now
from localcloud.cloudformation.operation import Operation
from localcloud.cloudformation.scopes import Clients
from localcloud.cloudformation.template import Template

_EXPORT = re.compile(r"[a-zA-Z0-9:-]+")
_log = logging.getLogger(__name__)
ACCOUNT_ID = "123456789012"


class Service:
    """CloudFormation's state. `clients(service, region)` returns the boto3 clients that create resources."""

    def __init__(
        self,
        clients: Clients,
        account_id: str = ACCOUNT_ID,
        knows_profile: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self.clients = clients
        self.account_id = account_id
        self.knows_profile = knows_profile
        self.lock = threading.RLock()
        self._stacks: list[Stack] = []
        self._running: dict[str, tuple[Operation, threading.Thread]] = {}

    def stacks(self, region: str) -> list[Stack]:
        """Newest first, including deleted ones."""
        return [stack for stack in reversed(self._stacks) if stack.region == region]

    def find(self, region: str, name: str) -> Stack | None:
        """A stack by name, or by id, including deleted ones."""
        for stack in self.stacks(region):
            if stack.stack_id == name or (stack.name == name and stack.exists):
                return stack
        return None

    def get(self, region: str, name: str) -> Stack:
        stack = self.find(region, name)
        if stack is None:
            raise ValidationError(f"Stack with id {name} does not exist")
        return stack

    def add(self, region: str, name: str) -> Stack:
        stack_id = f"arn:aws:cloudformation:{region}:{self.account_id}:stack/{name}/{uuid.uuid4()}"
        stack = Stack(name=name, region=region, account_id=self.account_id, stack_id=stack_id)
        self._stacks.append(stack)
        return stack

    def drop(self, stack: Stack) -> None:
        """Removes a stack that was never created."""
        self._stacks.remove(stack)

    def exports(self, region: str) -> list[tuple[Stack, Output]]:
        live = (stack for stack in self.stacks(region) if stack.exists)
        return [(stack, output) for stack in live for output in stack.outputs if output.export_name]

    def imported(self, region: str) -> Callable[[str], Any]:
        def value(name: str) -> Any:
            for _, output in self.exports(region):
                if output.export_name == name:
                    return output.value
            raise ValidationError(f"No export named {name} found.")

        return value

    def importers(self, region: str, name: str) -> list[str]:
        """Names of the stacks whose template imports the export."""
        return sorted(
            stack.name for stack in self.stacks(region) if stack.exists and _imports(stack.revision.template, name)
        )

    def create(self, stack: Stack, revision: Revision, on_failure: str) -> None:
        stack.revision = revision
        self._begin(stack, "CREATE_IN_PROGRESS", lambda operation: engine.create(operation, on_failure))

    def update(self, stack: Stack, revision: Revision, roll_back: bool, policy: str | None = None) -> None:
        """`policy`: the stack policy in force."""
        stack.updated = now()

        def work(operation: Operation) -> None:
            engine.Update(operation, revision, policy).run(roll_back)

        self._begin(stack, "UPDATE_IN_PROGRESS", work)

    def refuse_exports(self, stack: Stack, outputs: list[Output]) -> None:
        """Raises ValidationError if a stack's new outputs use an export's name of another stack, or change or drop an
        export that another stack imports."""
        names = [output.export_name for output in outputs if output.export_name is not None]
        for name in names:
            if not _EXPORT.fullmatch(name):
                raise ValidationError(
                    f"Template error: the export name '{name}' must only contain alphanumeric characters, colons, or "
                    "hyphens"
                )
            if names.count(name) > 1:
                raise ValidationError(f"Template error: the export name {name} is used by more than one output")
        wanted = {output.export_name: output.value for output in outputs if output.export_name}
        for other, output in self.exports(stack.region):
            if other is not stack and output.export_name in wanted:
                raise ValidationError(
                    f"Export with name {output.export_name} is already exported by stack {other.name}."
                )
        for old in stack.outputs:
            if not old.export_name or wanted.get(old.export_name) == old.value:
                continue
            if users := [name for name in self.importers(stack.region, old.export_name) if name != stack.name]:
                verb = "updated" if old.export_name in wanted else "deleted"
                raise ValidationError(
                    f"Export {old.export_name} cannot be {verb} as it is in use by {', '.join(users)}"
                )

    def roll_back(self, stack: Stack, skip: Collection[str] = (), *, force: bool = False) -> None:
        undo = stack.undo
        if undo is None and stack.status != "CREATE_FAILED":
            raise ValidationError(f"Stack:{stack.stack_id} has nothing to roll back to")
        if undo is None:
            self._begin(
                stack, "ROLLBACK_IN_PROGRESS", lambda operation: engine.roll_back_creation(operation, "User Initiated.")
            )
        else:
            self._begin(stack, "UPDATE_ROLLBACK_IN_PROGRESS", lambda operation: undo(skip, force=force))

    def delete(self, stack: Stack, retain: list[str]) -> None:
        running = self._running.get(stack.stack_id)

        def work(operation: Operation) -> None:
            if running is not None:
                running[1].join()
            engine.delete(operation, retain)

        if running is not None:
            running[0].abandoned = True
            running[0].cancelled.set()
        self._begin(stack, "DELETE_IN_PROGRESS", work)

    def cancel_update(self, stack: Stack) -> None:
        running = self._running.get(stack.stack_id)
        if stack.status != "UPDATE_IN_PROGRESS" or running is None:
            raise ValidationError("CancelUpdateStack cannot be called from current stack status")
        running[0].cancelled.set()

    def _begin(self, stack: Stack, status: str, work: Callable[[Operation], None]) -> None:
        """Sets the first status and runs the operation in a thread."""
        stack.operation_id = str(uuid.uuid4())
        stack.set_status(status, "User Initiated")
        operation = Operation(stack, self.clients, self.imported(stack.region), knows_profile=self.knows_profile)
        operation.check_outputs = lambda outputs: self.refuse_exports(stack, outputs)

        def run() -> None:
            try:
                work(operation)
            except Exception as error:
                _log.exception("operation on stack %s failed", stack.name)
                verb = status.removesuffix("_IN_PROGRESS")
                stack.set_status(f"{verb}_FAILED", f"Internal failure: {type(error).__name__}: {error}")
            finally:
                if self._running.get(stack.stack_id, (None,))[0] is operation:
                    del self._running[stack.stack_id]

        thread = threading.Thread(target=run, name=f"cfn-{stack.name}", daemon=True)
        self._running[stack.stack_id] = (operation, thread)
        thread.start()


def _imports(template: Template, name: str) -> bool:
    def search(value: Any) -> bool:
        if isinstance(value, dict):
            if value.get("Fn::ImportValue") == name:
                return True
            return any(search(item) for item in value.values())
        return isinstance(value, list) and any(search(item) for item in value)

    return search(dict(template.resources)) or search(dict(template.outputs))
