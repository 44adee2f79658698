"""Stack operations on resources that live in memory: create, update, roll back, delete."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from botocore.exceptions import ClientError

from localcloud.cloudformation import change_set_actions, inspect_actions, stack_actions
from localcloud.cloudformation.errors import CancelledError, ResourceError, UnchangedError, ValidationError
from localcloud.cloudformation.model import Stack
from localcloud.cloudformation.resources import registry
from localcloud.cloudformation.resources.registry import Call, Handler, Made, Properties
from localcloud.cloudformation.service import Service
from localcloud.testing import patience

REGION = "us-east-1"
Deploy = Callable[..., Stack]


class Thing(Handler):
    """`Size` changes in place, `Kind` replaces; `Refuse` makes every operation fail; an update that `Waits` ends when
    it is cancelled."""

    resource_type = "Test::Thing"
    updatable = frozenset({"Size", "Refuse", "Links", "Waits"})
    moving = frozenset({"Version"})
    alive: ClassVar[dict[str, dict[str, Any]]] = {}
    log: ClassVar[list[str]] = []
    numbers: ClassVar[Iterator[int]] = itertools.count(1)

    def create(self, call: Call, properties: Properties) -> Made:
        physical_id = f"{call.logical_id.lower()}-{next(self.numbers)}"
        if properties.get("Refuse") == "create":
            raise ResourceError("no more things")
        self.alive[physical_id] = dict(properties)
        self.log.append(f"+{call.logical_id}")
        call.announce(physical_id)
        if properties.get("Refuse") == "late":
            raise ResourceError("broke while starting")
        return Made(physical_id, {"Version": "1", "Arn": f"arn:{physical_id}"})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        if new.get("Refuse") == "update":
            raise UnchangedError("not now")
        if new.get("Grows") and new["Size"] < old["Size"]:
            raise ResourceError("things do not shrink")
        if new.get("Waits") and call.cancelled.wait(30):
            raise CancelledError("Resource update cancelled")
        del self.alive[physical_id]
        physical_id += "+" if new.get("Size") == "moved" else ""  # as a route table association does
        self.alive[physical_id] = dict(new)
        self.log.append(f"~{call.logical_id}")
        return Made(physical_id, {"Version": "2", "Arn": f"arn:{physical_id}"})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        if properties.get("Refuse") == "delete":
            raise ResourceError("it clings")
        if physical_id not in self.alive:
            raise ClientError({"Error": {"Code": "InvalidThing.NotFound", "Message": "gone"}}, "DeleteThing")
        del self.alive[physical_id]
        self.log.append(f"-{call.logical_id}")


@pytest.fixture
def things(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Thing]]:
    monkeypatch.setitem(registry._HANDLERS, "Test::Thing", Thing())
    Thing.alive.clear()
    Thing.log.clear()
    yield Thing


@pytest.fixture
def service(things: type[Thing]) -> Service:
    def no_clients(name: str, region: str) -> Any:
        raise AssertionError(f"no AWS here: {name}")

    return Service(no_clients)


def _thing(**properties: Any) -> dict[str, Any]:
    return {"Type": "Test::Thing", "Properties": properties}


def _body(resources: dict[str, Any], **sections: Any) -> str:
    return json.dumps({"Resources": resources, **sections})


def _settle(stack: Stack) -> Stack:
    deadline = patience.seconds() + 10
    while stack.busy and patience.seconds() < deadline:
        time.sleep(0.01)
    assert not stack.busy, stack.status
    return stack


@pytest.fixture
def deploy(service: Service) -> Deploy:
    """Creates or updates the stack S and waits for the end."""

    def run(resources: dict[str, Any], sections: dict[str, Any] | None = None, **given: Any) -> Stack:
        asked = {"StackName": "S", "TemplateBody": _body(resources, **(sections or {})), **given}
        exists = service.find(REGION, "S") is not None
        (stack_actions.update_stack if exists else stack_actions.create_stack)(service, REGION, asked)
        return _settle(service.get(REGION, "S"))

    return run


def _delete(service: Service) -> Stack:
    stack = service.get(REGION, "S")
    stack_actions.delete_stack(service, REGION, {"StackName": "S"})
    return _settle(stack)


def _reason(stack: Stack, logical_id: str, status: str) -> str | None:
    return next(event.reason for event in stack.events if (event.logical_id, event.status) == (logical_id, status))


def test_create_and_delete_in_dependency_order(service: Service, things: type[Thing], deploy: Deploy) -> None:
    outputs = {"Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["B", "Arn"]}, "Export": {"Name": "b-arn"}}}}
    stack = deploy(
        {"B": _thing(Links=[{"Ref": "A"}]), "A": _thing(Size="1"), "C": {**_thing(), "DependsOn": "B"}}, outputs
    )
    assert stack.status == "CREATE_COMPLETE"
    assert things.log == ["+A", "+B", "+C"]
    assert stack.resources["B"].properties == {"Links": [stack.resources["A"].physical_id]}
    assert stack.outputs[0].value == f"arn:{stack.resources['B'].physical_id}"
    assert inspect_actions.list_exports(service, REGION, {})["Exports"][0]["Name"] == "b-arn"
    assert _delete(service).status == "DELETE_COMPLETE"
    assert things.log[3:] == ["-C", "-B", "-A"]
    assert things.alive == {}
    assert service.find(REGION, "S") is None


def test_a_failed_creation_deletes_the_created_resources(things: type[Thing], deploy: Deploy) -> None:
    stack = deploy(
        {"A": _thing(), "B": _thing(Refuse="late", Links=[{"Ref": "A"}]), "C": {**_thing(), "DependsOn": "B"}}
    )
    assert stack.status == "ROLLBACK_COMPLETE"
    assert _reason(stack, "B", "CREATE_FAILED") == "broke while starting"
    assert _reason(stack, "S", "ROLLBACK_IN_PROGRESS") == (
        "The following resource(s) failed to create: [B]. Rollback requested by user."
    )
    assert things.alive == {}
    assert "C" not in stack.resources


@pytest.mark.parametrize(
    ("policy", "left"),
    [("Retain", ["a"]), ("RetainExceptOnCreate", []), ("Delete", [])],
)
def test_rollback_honours_the_deletion_policy(
    things: type[Thing], deploy: Deploy, policy: str, left: list[str]
) -> None:
    deploy({"A": {**_thing(), "DeletionPolicy": policy}, "B": _thing(Refuse="create", Links=[{"Ref": "A"}])})
    assert [name.split("-")[0] for name in things.alive] == left


@pytest.mark.parametrize("policy", ["Retain", "RetainExceptOnCreate"])
def test_deletion_keeps_what_is_to_be_retained(
    service: Service, things: type[Thing], deploy: Deploy, policy: str
) -> None:
    deploy({"A": {**_thing(), "DeletionPolicy": policy}, "B": _thing()})
    stack = _delete(service)
    assert stack.status == "DELETE_COMPLETE"
    assert [name.split("-")[0] for name in things.alive] == ["a"]


def test_without_rollback_a_failed_update_can_be_repaired_by_another(things: type[Thing], deploy: Deploy) -> None:
    stack = deploy({"A": _thing(), "B": _thing(Refuse="late", Links=[{"Ref": "A"}])}, DisableRollback=True)
    assert stack.status == "CREATE_FAILED"
    mended = deploy({"A": _thing(), "B": _thing(Links=[{"Ref": "A"}])})
    assert mended.status == "UPDATE_COMPLETE"
    assert sorted(name.split("-")[0] for name in things.alive) == ["a", "b"]


def test_update_in_place_replacement_addition_and_removal(things: type[Thing], deploy: Deploy) -> None:
    first = deploy({"A": _thing(Size="1"), "B": _thing(Kind="x"), "D": _thing(Links=[{"Ref": "B"}]), "Old": _thing()})
    ids = {name: resource.physical_id for name, resource in first.resources.items()}
    things.log.clear()
    stack = deploy({"A": _thing(Size="2"), "B": _thing(Kind="y"), "D": _thing(Links=[{"Ref": "B"}]), "New": _thing()})
    assert stack.status == "UPDATE_COMPLETE"
    assert stack.resources["A"].physical_id == ids["A"]
    assert stack.resources["B"].physical_id != ids["B"]
    assert stack.resources["D"].properties == {"Links": [stack.resources["B"].physical_id]}
    assert sorted(things.log) == ["+B", "+New", "-B", "-Old", "~A", "~D"]
    assert set(things.alive) == {resource.physical_id for resource in stack.resources.values()}
    assert things.log.index("-B") > things.log.index("~D")


def test_a_failed_update_restores_the_old_state(things: type[Thing], deploy: Deploy) -> None:
    old = {"A": _thing(Size="1"), "B": _thing(Kind="x"), "Old": _thing()}
    ids = {name: resource.physical_id for name, resource in deploy(old).resources.items()}
    failing = _thing(Refuse="create", Links=[{"Ref": "A"}, {"Ref": "B"}])
    stack = deploy({"A": _thing(Size="2"), "B": _thing(Kind="y"), "New": _thing(), "Fails": failing})
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert _reason(stack, "Fails", "CREATE_FAILED") == "no more things"
    assert {name: resource.physical_id for name, resource in stack.resources.items()} == ids
    assert things.alive == {ids["A"]: {"Size": "1"}, ids["B"]: {"Kind": "x"}, ids["Old"]: {}}
    with pytest.raises(ValidationError, match="No updates are to be performed"):
        deploy(old)


def test_an_update_that_changes_the_physical_id_is_undone_in_place(things: type[Thing], deploy: Deploy) -> None:
    deploy({"A": _thing(Size="1")})
    stack = deploy({"A": _thing(Size="moved"), "B": _thing(Refuse="create", Links=[{"Ref": "A"}])})
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert things.alive == {stack.resources["A"].physical_id: {"Size": "1"}}


def test_a_refused_update_is_not_undone(things: type[Thing], deploy: Deploy) -> None:
    deploy({"A": _thing(Size="1")})
    things.log.clear()
    stack = deploy({"A": _thing(Size="2", Refuse="update")})
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert things.log == []


def test_resources_that_cannot_be_rolled_back_can_be_skipped(
    service: Service, things: type[Thing], deploy: Deploy
) -> None:
    deploy({"A": _thing(Size="1", Grows="yes"), "B": _thing(Size="1")})
    failing = {"B": _thing(Size="2"), "C": _thing(Refuse="create", Links=[{"Ref": "A"}, {"Ref": "B"}])}
    stack = deploy({"A": _thing(Size="2", Grows="yes"), **failing})
    assert (stack.status, stack.resources["A"].status) == ("UPDATE_ROLLBACK_FAILED", "UPDATE_FAILED")
    _continue(service, ResourcesToSkip=["A"])
    assert _settle(stack).status == "UPDATE_ROLLBACK_COMPLETE"
    assert stack.resources["A"].reason == "Resource skipped during UpdateRollback"
    assert [(name[0], thing["Size"]) for name, thing in sorted(things.alive.items())] == [("a", "2"), ("b", "1")]
    assert deploy({"A": _thing(Size="3", Grows="yes"), "B": _thing(Size="1")}).status == "UPDATE_COMPLETE"


def _continue(service: Service, **given: Any) -> None:
    stack_actions.continue_update_rollback(service, REGION, {"StackName": "S", **given})


def _stuck(deploy: Deploy) -> Stack:
    """A's growth cannot be rolled back. B's update was cancelled, and B comes after A."""
    deploy({"A": _thing(Size="1", Grows="yes"), "B": _thing(Size="1", Links=[{"Ref": "A"}])})
    waits = _thing(Size="2", Waits="yes", Links=[{"Ref": "A"}])
    stack = deploy({"A": _thing(Size="2", Grows="yes"), "B": waits, "C": _thing(Refuse="create", Links=[{"Ref": "A"}])})
    assert stack.status == "UPDATE_ROLLBACK_FAILED"
    assert {name: stack.resources[name].status for name in "AB"} == {"A": "UPDATE_FAILED", "B": "UPDATE_FAILED"}
    assert stack.resources["B"].reason == "Resource update cancelled"
    return stack


@pytest.mark.parametrize(
    ("skip", "reason"),
    [
        (["A", "B"], "Only the resources in UPDATE_FAILED state are allowed to be skipped"),
        (["X"], "Resources with logicalIds [X] do not belong to stack S"),
        (["Nested.A"], "Stack [Nested] does not exist"),
    ],
)
def test_a_wrong_resource_to_skip_fails_the_roll_back_again(
    service: Service, deploy: Deploy, skip: list[str], reason: str
) -> None:
    stack = _stuck(deploy)
    _continue(service, ResourcesToSkip=skip)
    _settle(stack)
    assert (stack.status, stack.status_reason) == ("UPDATE_ROLLBACK_FAILED", reason)
    assert stack.events[-2].status == "UPDATE_ROLLBACK_IN_PROGRESS", "nothing else happens"


def test_a_forced_roll_back_skips_what_is_stuck_and_restores_the_rest(
    service: Service, things: type[Thing], deploy: Deploy
) -> None:
    stack = _stuck(deploy)
    with pytest.raises(ValidationError, match="mutually exclusive"):
        _continue(service, ForceRollback=True, ResourcesToSkip=["A"])
    _continue(service, ForceRollback=True)
    assert _settle(stack).status == "UPDATE_ROLLBACK_COMPLETE"
    assert [(name[0], thing["Size"]) for name, thing in sorted(things.alive.items())] == [("a", "2"), ("b", "1")]
    with pytest.raises(ValidationError, match="RollbackUpdatedStack cannot be called from current stack status"):
        _continue(service)


def test_a_roll_back_without_skips_is_attempted_again(service: Service, deploy: Deploy) -> None:
    stack = _stuck(deploy)
    _continue(service)
    _settle(stack)
    assert (stack.status, stack.resources["A"].reason) == ("UPDATE_ROLLBACK_FAILED", "things do not shrink")


def test_a_failed_deletion_names_the_resource(service: Service, things: type[Thing], deploy: Deploy) -> None:
    deploy({"A": _thing(), "B": _thing(Refuse="delete", Links=[{"Ref": "A"}]), "C": _thing()})
    stack = _delete(service)
    assert stack.status == "DELETE_FAILED"
    assert stack.status_reason == "The following resource(s) failed to delete: [B]."
    assert _reason(stack, "B", "DELETE_FAILED") == "it clings"
    assert [name.split("-")[0] for name in things.alive] == ["a", "b"]


def test_a_missing_resource_counts_as_deleted(service: Service, things: type[Thing], deploy: Deploy) -> None:
    deploy({"A": _thing()})
    things.alive.clear()
    assert _delete(service).status == "DELETE_COMPLETE"


def test_unsupported_types_are_named_before_any_resource_is_created(service: Service, deploy: Deploy) -> None:
    with pytest.raises(ValidationError, match=r"Unrecognized resource types: \[AWS::Quantum::Computer\]"):
        deploy({"A": {"Type": "AWS::Quantum::Computer"}, "B": _thing()})
    foreign = {"A": {"Type": "AWS::Lambda::Function"}, "B": {"Type": "Custom::Own"}, "C": _thing()}
    with pytest.raises(ValidationError, match=r"\[AWS::Lambda::Function, Custom::Own\]") as error:
        deploy(foreign)
    assert len(str(error.value)) < 250
    assert service.find(REGION, "S") is None


def test_conditions_decide_what_exists(things: type[Thing], deploy: Deploy) -> None:
    sections = {
        "Parameters": {"Big": {"Type": "String"}},
        "Conditions": {"IsBig": {"Fn::Equals": [{"Ref": "Big"}, "y"]}},
    }
    resources = {"A": {**_thing(), "Condition": "IsBig"}, "B": _thing()}
    stack = deploy(resources, sections, Parameters=[{"ParameterKey": "Big", "ParameterValue": "n"}])
    assert list(stack.resources) == ["B"]
    deploy(resources, sections, Parameters=[{"ParameterKey": "Big", "ParameterValue": "y"}])
    assert sorted(stack.resources) == ["A", "B"]
    deploy(resources, sections, Parameters=[{"ParameterKey": "Big", "ParameterValue": "n"}])
    assert list(stack.resources) == ["B"]


def test_a_creation_policy_waits_for_signals(service: Service, deploy: Deploy) -> None:
    policy = {"CreationPolicy": {"ResourceSignal": {"Count": 2, "Timeout": "PT5S"}}}

    def signal() -> None:
        for unique_id in ("one", "two"):
            given = {"StackName": "S", "LogicalResourceId": "A", "UniqueId": unique_id, "Status": "SUCCESS"}
            stack_actions.signal_resource(service, REGION, given)

    threading.Timer(0.2, signal).start()
    assert deploy({"A": {**_thing(), **policy}}).status == "CREATE_COMPLETE"


def test_signals_that_do_not_come_fail_the_resource(things: type[Thing], deploy: Deploy) -> None:
    stack = deploy({"A": {**_thing(), "CreationPolicy": {"ResourceSignal": {"Timeout": "PT0S"}}}})
    assert stack.status == "ROLLBACK_COMPLETE"
    expected = "Failed to receive 1 resource signal(s) within the specified duration"
    assert _reason(stack, "A", "CREATE_FAILED") == expected
    assert things.alive == {}


def test_deleting_a_stack_that_is_being_created(service: Service, things: type[Thing]) -> None:
    waiting = {**_thing(), "CreationPolicy": {"ResourceSignal": {"Timeout": "PT1H"}}}
    stack_actions.create_stack(service, REGION, {"StackName": "S", "TemplateBody": _body({"A": waiting})})
    while not things.alive:
        time.sleep(0.01)
    assert _delete(service).status == "DELETE_COMPLETE"
    assert things.alive == {}


def test_termination_protection(service: Service, deploy: Deploy) -> None:
    deploy({"A": _thing()}, EnableTerminationProtection=True)
    with pytest.raises(ValidationError, match="cannot be deleted while TerminationProtection is enabled"):
        _delete(service)


def test_a_stack_whose_export_is_used_cannot_be_deleted(service: Service, deploy: Deploy) -> None:
    deploy({"A": _thing()}, {"Outputs": {"O": {"Value": "v", "Export": {"Name": "shared"}}}})
    user = {"StackName": "T", "TemplateBody": _body({"B": _thing(Size={"Fn::ImportValue": "shared"})})}
    stack_actions.create_stack(service, REGION, user)
    assert _settle(service.get(REGION, "T")).resources["B"].properties == {"Size": "v"}
    with pytest.raises(ValidationError, match="Export shared cannot be deleted as it is in use by T"):
        _delete(service)


def _changes(service: Service, resources: dict[str, Any], kind: str = "UPDATE") -> dict[str, Any]:
    given = {"StackName": "S", "ChangeSetName": "c", "ChangeSetType": kind, "TemplateBody": _body(resources)}
    change_set_actions.create_change_set(service, REGION, given)
    found = change_set_actions.describe_change_set(service, REGION, {"StackName": "S", "ChangeSetName": "c"})
    change_set_actions.delete_change_set(service, REGION, {"StackName": "S", "ChangeSetName": "c"})
    return found


def test_change_sets_distinguish_updates_in_place_from_replacements(service: Service, deploy: Deploy) -> None:
    old = {
        "A": _thing(Size="1"),
        "B": _thing(Kind="x"),
        "C": _thing(Kind={"Fn::GetAtt": ["A", "Version"]}),
        "D": _thing(),
    }
    deploy(old)
    new = {**old, "A": _thing(Size="2"), "B": _thing(Kind="y"), "E": _thing()}
    del new["D"]
    found = _changes(service, new)
    summary = [
        (
            item["ResourceChange"]["Action"],
            item["ResourceChange"]["LogicalResourceId"],
            item["ResourceChange"]["Replacement"],
        )
        for item in found["Changes"]
    ]
    assert sorted(summary, key=lambda item: item[1]) == [
        ("Modify", "A", "False"),
        ("Modify", "B", "True"),
        ("Modify", "C", "Conditional"),
        ("Remove", "D", None),
        ("Add", "E", None),
    ]


def test_a_change_set_without_changes_fails_with_the_message_that_clients_expect(
    service: Service, deploy: Deploy
) -> None:
    deploy({"A": _thing(Size="1")})
    found = _changes(service, {"A": _thing(Size="1")})
    assert (found["Status"], found["ExecutionStatus"]) == ("FAILED", "UNAVAILABLE")
    assert found["StatusReason"].startswith("The submitted information didn't contain changes.")


def test_of_two_updates_at_once_one_is_refused(
    service: Service, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = deploy({"A": _thing(Size="1")})
    plan = stack_actions.Planner.plan

    def slow(planner: stack_actions.Planner) -> Any:
        time.sleep(0.05)
        return plan(planner)

    monkeypatch.setattr(stack_actions.Planner, "plan", slow)
    refused = []

    def update() -> None:
        try:
            stack_actions.update_stack(
                service, REGION, {"StackName": "S", "TemplateBody": _body({"A": _thing(Size="2")})}
            )
        except ValidationError as error:
            refused.append(str(error))

    updates = [threading.Thread(target=update) for _ in range(2)]
    for each in updates:
        each.start()
    for each in updates:
        each.join()
    assert _settle(stack).status == "UPDATE_COMPLETE"
    assert len(refused) == 1, "the other one's is in progress, or has left nothing to update"
    assert Thing.log.count("~A") == 1


def test_a_stack_created_by_a_change_set_is_empty(service: Service, things: type[Thing]) -> None:
    found = _changes(service, {"A": _thing()}, kind="CREATE")
    assert found["Status"] == "CREATE_COMPLETE"
    assert service.get(REGION, "S").status == "REVIEW_IN_PROGRESS"
    assert _delete(service).status == "DELETE_COMPLETE"
    assert things.alive == {}


def test_pages_of_events_stay_valid_while_events_arrive(service: Service, deploy: Deploy) -> None:
    stack = deploy({f"T{number}": _thing() for number in range(60)})
    first = inspect_actions.describe_stack_events(service, REGION, {"StackName": "S"})
    stack.record("Late", "", "Test::Thing", "CREATE_IN_PROGRESS", None)
    seen = [event["EventId"] for event in first["StackEvents"]]
    while first["NextToken"]:
        first = inspect_actions.describe_stack_events(
            service, REGION, {"StackName": "S", "NextToken": first["NextToken"]}
        )
        seen += [event["EventId"] for event in first["StackEvents"]]
    assert seen == [event.event_id for event in reversed(stack.events[:-1])]
    assert len(seen) > 120


def test_an_update_without_rollback_can_be_rolled_back_later(
    service: Service, things: type[Thing], deploy: Deploy
) -> None:
    deploy({"A": _thing(Size="1")})
    failing = {"A": _thing(Size="2"), "B": _thing(Refuse="create", Links=[{"Ref": "A"}])}
    stack = deploy(failing, DisableRollback=True)
    assert (stack.status, list(things.alive.values())) == ("UPDATE_FAILED", [{"Size": "2"}])
    stack_actions.rollback_stack(service, REGION, {"StackName": "S"})
    assert _settle(stack).status == "UPDATE_ROLLBACK_COMPLETE"
    assert list(things.alive.values()) == [{"Size": "1"}]
