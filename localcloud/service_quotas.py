"""Service Quotas: EC2's vCPU quotas in front of moto's few."""

from __future__ import annotations

import json

import moto.servicequotas.urls
from moto.core.exceptions import JsonRESTError
from moto.servicequotas.responses import ServiceQuotasResponse

from localcloud.ec2 import quotas


class ServiceQuotas(ServiceQuotasResponse):
    def list_service_quotas(self) -> str:
        return json.dumps({"Quotas": self._of_ec2()})

    def list_aws_default_service_quotas(self) -> str:
        if self._asked("ServiceCode") != "ec2":
            moto_answer: str = super().list_aws_default_service_quotas()
            return moto_answer
        return json.dumps({"Quotas": self._of_ec2()})

    def get_service_quota(self) -> str:
        if self._asked("ServiceCode") != "ec2":
            moto_answer: str = super().get_service_quota()
            return moto_answer
        for quota in self._of_ec2():
            if quota["QuotaCode"] == self._asked("QuotaCode"):
                return json.dumps({"Quota": quota})
        raise JsonRESTError("NoSuchResourceException", "The request failed because the specified quota does not exist.")

    def _asked(self, name: str) -> str:
        return str(json.loads(self.body).get(name))

    def _of_ec2(self) -> list[dict[str, object]]:
        if self._asked("ServiceCode") != "ec2":
            return []
        return [quotas.shown(quota, self.region, self.current_account) for quota in quotas.QUOTAS]


def install() -> None:
    moto.servicequotas.urls.url_paths["{0}/$"] = ServiceQuotas.dispatch
