"""API actions that create, change and delete stacks."""

from __future__ import annotations

from typing import Any

from localcloud.cloudformation import requests
from localcloud.cloudformation.actions import Action, Given, require_idle, revision
from localcloud.cloudformation.errors import AlreadyExistsError, ValidationError
from localcloud.cloudformation.model import Revision, Stack
from localcloud.cloudformation.plan import Planner
from localcloud.cloudformation.service import Service

UPDATABLE = (
    "CREATE_COMPLETE", "CREATE_FAILED", "UPDATE_COMPLETE", "UPDATE_FAILED", "UPDATE_ROLLBACK_COMPLETE",
    "IMPORT_COMPLETE",
)  # fmt: skip


def create_stack(service: Service, region: str, given: Given) -> dict[str, Any]:
    name = str(given["StackName"])
    requests.check_name(name, "stackName")
    with service.lock:
        if service.find(region, name) is not None:
            raise AlreadyExistsError(f"Stack [{name}] already exists")
        stack = service.add(region, name)
    try:
        wanted = revision(service, stack, given)
        Planner(stack, wanted, service.clients, service.imported(region)).plan()
    except Exception:
        service.drop(stack)
        raise
    configure(stack, given)
    stack.policy = given.get("StackPolicyBody")
    stack.termination_protection = bool(given.get("EnableTerminationProtection"))
    service.create(stack, wanted, on_failure(given))
    return {"StackId": stack.stack_id}


def configure(stack: Stack, given: Given) -> None:
    stack.capabilities = list(given.get("Capabilities") or [])
    stack.notification_arns = list(given.get("NotificationARNs") or [])
    stack.role_arn = given.get("RoleARN") or stack.role_arn
    stack.disable_rollback = bool(given.get("DisableRollback"))


def on_failure(given: Given) -> str:
    wanted = given.get("OnFailure") or given.get("OnStackFailure")
    if wanted:
        return str(wanted)
    return "DO_NOTHING" if given.get("DisableRollback") else "ROLLBACK"


def update_stack(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack = service.get(region, str(given["StackName"]))
    with stack.lock:  # until its status says that an update is in progress
        require_updatable(stack)
        wanted = revision(service, stack, given)
        changes = Planner(stack, wanted, service.clients, service.imported(region)).plan()
        if not changes and same_otherwise(stack, wanted):
            raise ValidationError("No updates are to be performed.")
        configure(stack, given)
        stack.policy = given.get("StackPolicyBody") or stack.policy
        policy = given.get("StackPolicyDuringUpdateBody") or stack.policy
        service.update(stack, wanted, roll_back=not given.get("DisableRollback"), policy=policy)
    return {"StackId": stack.stack_id}


def require_updatable(stack: Stack) -> None:
    if stack.status not in UPDATABLE:
        raise ValidationError(f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")


def same_otherwise(stack: Stack, wanted: Revision) -> bool:
    """Whether the stack and the revision could differ only in resources."""
    now = stack.revision
    return wanted.template.outputs == now.template.outputs and dict(wanted.tags) == dict(now.tags)


def delete_stack(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack = service.find(region, str(given["StackName"]))
    if stack is None or not stack.exists:
        return {}
    if stack.status == "DELETE_IN_PROGRESS":
        return {}
    if stack.termination_protection:
        raise ValidationError(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")
    if stack.busy and stack.status != "CREATE_IN_PROGRESS":
        require_idle(stack, "deleted")
    for output in stack.outputs:
        users = [name for name in service.importers(region, output.export_name or "") if name != stack.name]
        if output.export_name and users:
            raise ValidationError(
                f"Export {output.export_name} cannot be deleted as it is in use by {', '.join(users)}"
            )
    retained = list(given.get("RetainResources") or [])
    if retained and stack.status != "DELETE_FAILED":
        raise ValidationError(
            f"Invalid operation on stack [{stack.stack_id}]. Specify resources to retain only when the current stack "
            "status is DELETE_FAILED."
        )
    service.delete(stack, retained)
    return {}


def cancel_update_stack(service: Service, region: str, given: Given) -> dict[str, Any]:
    service.cancel_update(service.get(region, str(given["StackName"])))
    return {}


def rollback_stack(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack = service.get(region, str(given["StackName"]))
    if stack.status not in ("CREATE_FAILED", "UPDATE_FAILED", "UPDATE_ROLLBACK_FAILED"):
        raise ValidationError(f"Stack:{stack.stack_id} is in {stack.status} state and can not be rolled back.")
    service.roll_back(stack)
    return {"StackId": stack.stack_id}


def continue_update_rollback(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack = service.get(region, str(given["StackName"]))
    if stack.status != "UPDATE_ROLLBACK_FAILED":
        raise ValidationError("RollbackUpdatedStack cannot be called from current stack status")
    skip, force = list(given.get("ResourcesToSkip") or []), bool(given.get("ForceRollback"))
    if skip and force:
        raise ValidationError("ForceRollback and ResourcesToSkip are mutually exclusive")
    service.roll_back(stack, skip, force=force)
    return {}


def signal_resource(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack = service.get(region, str(given["StackName"]))
    logical_id = str(given["LogicalResourceId"])
    if logical_id not in stack.revision.template.resources:
        raise ValidationError(f"Resource {logical_id} does not exist for stack {stack.stack_id}")
    signals = stack.signals.setdefault(logical_id, {})
    signals.setdefault(str(given["UniqueId"]), given["Status"] == "SUCCESS")
    return {}


def update_termination_protection(service: Service, region: str, given: Given) -> dict[str, Any]:
    stack = service.get(region, str(given["StackName"]))
    stack.termination_protection = bool(given["EnableTerminationProtection"])
    return {"StackId": stack.stack_id}


def set_stack_policy(service: Service, region: str, given: Given) -> dict[str, Any]:
    requests.check_policy(given.get("StackPolicyBody"))
    service.get(region, str(given["StackName"])).policy = given.get("StackPolicyBody")
    return {}


def get_stack_policy(service: Service, region: str, given: Given) -> dict[str, Any]:
    return {"StackPolicyBody": service.get(region, str(given["StackName"])).policy}


ACTIONS: dict[str, Action] = {
    "CreateStack": create_stack,
    "UpdateStack": update_stack,
    "DeleteStack": delete_stack,
    "CancelUpdateStack": cancel_update_stack,
    "RollbackStack": rollback_stack,
    "ContinueUpdateRollback": continue_update_rollback,
    "SignalResource": signal_resource,
    "UpdateTerminationProtection": update_termination_protection,
    "SetStackPolicy": set_stack_policy,
    "GetStackPolicy": get_stack_policy,
}
