"""The instance actions of the EC2 API, on the hypervisor's states."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models import EC2Backend
from moto.ec2.responses import EC2Response

from localcloud.ec2 import kept, launch, lifecycle, statuses
from localcloud.ec2.errors import Ec2Error
from localcloud.runtime import Runtime

_TOKENS = "client tokens"


def once(backend: EC2Backend, action: str, request: dict[str, Any], make: Callable[[], Any]) -> Any:
    """Returns the answer of `make()`, and the same answer again for the same ClientToken; a failed call leaves no
    token."""
    token = request.get("ClientToken")
    if not token:
        return make()
    tokens = kept.of(backend, f"{_TOKENS} {action}")
    fingerprint = json.dumps(request, sort_keys=True, default=str)
    if token in tokens:
        if tokens[token]["request"] != fingerprint:
            raise Ec2Error(  # ubicloud/ubicloud#5898
                "IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
            )
        _refuse_ended(tokens[token]["answer"])
        return tokens[token]["answer"]
    answer = make()
    tokens[token] = {"request": fingerprint, "answer": answer}
    return answer


def _refuse_ended(answer: Any) -> None:
    """Since January 2025 AWS refuses the token of a terminated instance: boto/boto3#4406."""
    instances = getattr(answer, "instances", None)
    if instances and all(instance.state == "terminated" for instance in instances):
        raise Ec2Error(
            "IdempotentInstanceTerminated",
            "The client token you have provided is associated with a terminated instance. Please use a different "
            "client token",
        )


class InstanceActions(EC2Response):
    runtime: Runtime

    def run_instances(self) -> ActionResult:
        request, backend = dict(self.params), self.ec2_backend
        dry_run = bool(request.pop("DryRun", False))
        reservation = once(
            backend, "RunInstances", request, lambda: launch.run(self.runtime, backend, request, dry_run=dry_run)
        )
        return ActionResult(reservation)

    def terminate_instances(self) -> ActionResult:
        instances = self.ec2_backend.get_multi_instances_by_id(self._get_param("InstanceIds", []))
        self.error_on_dryrun()
        before = [(instance, dict(Name=instance.state, Code=instance.state_code)) for instance in instances]
        for instance in instances:
            lifecycle.terminate(self.runtime.hypervisor, instance)
        return ActionResult(
            {
                "TerminatingInstances": [
                    {
                        "InstanceId": instance.id,
                        "PreviousState": previous,
                        "CurrentState": {"Name": instance.state, "Code": instance.state_code},
                    }
                    for instance, previous in before
                ]
            }
        )

    def describe_instance_status(self) -> ActionResult:
        ids, all_states = self._get_param("InstanceIds", []), self._get_bool_param("IncludeAllInstances", False)
        filters = self._filters_from_querystring()
        instances = self.ec2_backend.describe_instance_status(ids, all_states, None)
        found = (statuses.of(each, self.runtime.faults) for each in instances)
        return ActionResult({"InstanceStatuses": [each for each in found if statuses.matches(each, filters)]})

    def describe_instance_type_offerings(self) -> ActionResult:
        """Without types that a `not-offered` fault removes; zone ids stand for their zones."""
        kind, lacks = self._get_param("LocationType") or "region", self.runtime.faults.not_offered
        zones = {zone.zone_id: zone.name for zone in self.ec2_backend.describe_availability_zones()}
        found = self.ec2_backend.describe_instance_type_offerings(kind, self._filters_from_querystring())
        offered = [o for o in found if not lacks(o["InstanceType"], zones.get(o["Location"], o["Location"]))]
        return ActionResult({"InstanceTypeOfferings": offered})

    def get_console_output(self) -> ActionResult:
        instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
        text = self.runtime.hypervisor.console_output(instance.id).encode()
        output = base64.b64encode(text[-65536:]).decode()  # AWS keeps the last 64 KiB
        return ActionResult({"InstanceId": instance.id, "Timestamp": utcnow(), "Output": output})
