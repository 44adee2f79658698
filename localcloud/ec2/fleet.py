"""CreateFleet of type instant: uses the first pool with capacity and returns the errors of the others."""

from __future__ import annotations

import secrets
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.responses import EC2Response

from localcloud.ec2 import kept, launch
from localcloud.ec2.errors import Ec2Error
from localcloud.ec2.instances import once
from localcloud.runtime import Runtime
from localcloud.validation.refusal import Refusal

Request = dict[str, Any]
_FLEETS = "fleets"


class FleetActions(EC2Response):
    runtime: Runtime

    def create_fleet(self) -> ActionResult:
        request, backend = dict(self.params), self.ec2_backend
        if request.get("Type") != "instant":
            raise Ec2Error("UnsupportedOperation", "The local cloud knows fleets of type instant only")
        if request.pop("DryRun", False):
            self.error_on_dryrun()
        return ActionResult(once(backend, "CreateFleet", request, lambda: _create(self.runtime, backend, request)))

    def describe_fleets(self) -> ActionResult:
        ids = self._get_param("FleetIds") or []
        fleets = kept.of(self.ec2_backend, _FLEETS)
        return ActionResult({"Fleets": [fleet for key, fleet in fleets.items() if not ids or key in ids]})


def _create(runtime: Runtime, backend: EC2Backend, request: Request) -> Request:
    capacity = request["TargetCapacitySpecification"]
    wanted = int(capacity["TotalTargetCapacity"])
    spot = capacity.get("DefaultTargetCapacityType") == "spot"
    lifecycle = "spot" if spot else "on-demand"
    least = int((request.get("SpotOptions" if spot else "OnDemandOptions") or {}).get("MinTargetCapacity") or 0)
    fleet_id = f"fleet-{secrets.token_hex(4)}-{secrets.token_hex(2)}-{secrets.token_hex(2)}-{secrets.token_hex(6)}"
    launched: list[Request] = []
    errors: list[Request] = []
    for template, override in _pools(request):
        missing = wanted - sum(len(group["InstanceIds"]) for group in launched)
        if missing <= 0:
            break
        where = {"LaunchTemplateAndOverrides": _shown(backend, template, override), "Lifecycle": lifecycle}
        try:
            smallest = missing if least >= wanted else 1
            counts = (smallest, missing)
            ids, instance_type = _launch(runtime, backend, request, template, override, counts, spot, fleet_id)
        except (EC2ClientError, Refusal) as error:
            errors.append(where | {"ErrorCode": error.code, "ErrorMessage": error.message})
        else:
            launched.append(where | {"InstanceIds": ids, "InstanceType": instance_type})
    kept.of(backend, _FLEETS)[fleet_id] = _record(fleet_id, request)
    return {"FleetId": fleet_id, "Errors": errors, "Instances": launched}


def _pools(request: Request) -> list[tuple[Request, Request]]:
    """(template, override) in the order of attempts: by Priority if given, else as written."""
    pools = [
        (config["LaunchTemplateSpecification"], override)
        for config in request["LaunchTemplateConfigs"]
        for override in config.get("Overrides") or [{}]
    ]
    return sorted(pools, key=lambda pool: float(pool[1].get("Priority") or 0))


def _launch(
    runtime: Runtime,
    backend: EC2Backend,
    request: Request,
    template: Request,
    override: Request,
    counts: tuple[int, int],
    spot: bool,
    fleet_id: str,
) -> tuple[list[str], str]:
    launch_request: Request = {
        key: override[key] for key in ("InstanceType", "ImageId", "Placement") if override.get(key)
    }
    launch_request |= {"MinCount": counts[0], "MaxCount": counts[1], "LaunchTemplate": template}
    if override.get("AvailabilityZone"):
        launch_request["Placement"] = launch_request.get("Placement", {}) | {
            "AvailabilityZone": override["AvailabilityZone"]
        }
    launch_request |= _in_subnet(backend, template, override)
    if spot:
        launch_request["InstanceMarketOptions"] = {"MarketType": "spot"}
    tags = [spec for spec in request.get("TagSpecifications") or [] if spec["ResourceType"] in ("instance", "volume")]
    fleet_tag = {"ResourceType": "instance", "Tags": [{"Key": "aws:ec2:fleet-id", "Value": fleet_id}]}
    launch_request["TagSpecifications"] = [*tags, fleet_tag]
    reservation = launch.run(runtime, backend, launch_request)
    return [instance.id for instance in reservation.instances], reservation.instances[0].instance_type


def _in_subnet(backend: EC2Backend, template: Request, override: Request) -> Request:
    """An override's subnet, for every interface of the template if it has any."""
    subnet_id = override.get("SubnetId")
    if not subnet_id:
        return {}
    nics = launch.template_version(backend, template).data.get("NetworkInterfaces") or []
    if nics:
        return {"NetworkInterfaces": [nic | {"SubnetId": subnet_id} for nic in nics]}
    return {"SubnetId": subnet_id}


def _shown(backend: EC2Backend, template: Request, override: Request) -> Request:
    """In the form of CreateFleet's answer: with the template's id, and the version as a number if it exists."""
    shown = dict(template)
    try:
        version = launch.template_version(backend, template)
        shown |= {"LaunchTemplateId": version.template.id, "Version": str(version.number)}
    except EC2ClientError:
        pass  # the pool's own error reports what is wrong with the template
    return {"LaunchTemplateSpecification": shown, "Overrides": override}


def _record(fleet_id: str, request: Request) -> Request:
    return {
        "FleetId": fleet_id,
        "FleetState": "active",
        "Type": "instant",
        "TargetCapacitySpecification": request["TargetCapacitySpecification"],
        "LaunchTemplateConfigs": request["LaunchTemplateConfigs"],
    }
