"""The EC2 service: moto's, with our actions in front."""

from __future__ import annotations

from typing import Any

import moto.ec2.urls
from botocore.model import OperationNotFoundError
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.core.utils import camelcase_to_underscores
from moto.ec2.exceptions import DryRunClientError

from localcloud.ec2 import answers, catalogue, first_states, lifecycle, reservations, shown
from localcloud.ec2.attributes import AttributeActions
from localcloud.ec2.disks.images import ImageActions
from localcloud.ec2.disks.volumes import VolumeActions
from localcloud.ec2.errors import http_status
from localcloud.ec2.fleet import FleetActions
from localcloud.ec2.instances import InstanceActions
from localcloud.ec2.networks import groups, interfaces, nat_gateways
from localcloud.ec2.networks.connect import ConnectEndpointActions
from localcloud.ec2.networks.groups import GroupActions
from localcloud.ec2.networks.nat_gateways import NatGatewayActions
from localcloud.ec2.networks.vpcs import VpcActions
from localcloud.ec2.pages import Pages
from localcloud.ec2.placement import PlacementActions
from localcloud.ec2.power import PowerActions
from localcloud.ec2.tags import TagActions
from localcloud.ec2.validation import check
from localcloud.runtime import Runtime, bound
from localcloud.validation.refusal import Refusal


class Ec2(
    Pages,
    InstanceActions,
    PowerActions,
    AttributeActions,
    FleetActions,
    VolumeActions,
    ImageActions,
    GroupActions,
    NatGatewayActions,
    PlacementActions,
    ConnectEndpointActions,
    reservations.CapacityReservationActions,
    TagActions,
    VpcActions,
):
    def call_action(self) -> Any:
        lifecycle.refresh(self.runtime, self.ec2_backend)
        reservations.end_blocks(self.runtime.hypervisor, self.ec2_backend)
        action = self._get_action()
        check.check(self.ec2_backend, action, self.params)
        if self.params.get("DryRun") and _is_motos(type(self), action):  # moto would execute some of them
            raise Refusal("DryRunOperation", DryRunClientError.message, http_status("DryRunOperation"))
        return super().call_action()

    def serialized(self, action_result: ActionResult) -> Any:
        """moto answers every EC2 error with 400, but SDKs retry only answers with 500."""
        told = ActionResult(first_states.shown(self._get_action(), action_result.result))
        status, headers, body = super().serialized(told)
        if isinstance(action_result.result, ServiceException):
            status = http_status(action_result.result.code)
        return status, headers, body

    def parse_parameters(self, request: Any) -> None:
        try:
            super().parse_parameters(request)
        except OperationNotFoundError:
            raise _unknown(self._get_action()) from None
        except (ValueError, OverflowError) as error:  # for example a word instead of a number
            raise Refusal("InvalidParameterValue", f"A value of the request is invalid: {error}") from None


def _is_motos(service: type, action: str) -> bool:
    method = getattr(service, camelcase_to_underscores(action), None)
    return str(getattr(method, "__module__", "")).startswith("moto.")


def _unknown(action: str) -> Refusal:
    return Refusal("InvalidAction", f"The action {action} is not valid for this web service.")


def install(runtime: Runtime) -> None:
    catalogue.install()
    answers.install()
    groups.install()
    nat_gateways.install()
    interfaces.install()
    shown.install(runtime.pace)
    moto.ec2.urls.url_paths["{0}/"] = bound(Ec2, runtime=runtime).dispatch
