"""Service Quotas: EC2's vCPU quotas and other quotas that a cluster uses; moto has few."""

from __future__ import annotations

import json

import moto.servicequotas.urls
from moto.core.exceptions import JsonRESTError
from moto.servicequotas.responses import ServiceQuotasResponse

from localcloud.ec2 import quotas
from localcloud.faults import Faults
from localcloud.runtime import bound
from localcloud.training import quotas as training

# Shown by the API and lowered by the `quota` fault. Of these, only that of elastic addresses is enforced.
QUOTA_NAMES = {
    ("ec2", quotas.ADDRESSES): "EC2-VPC Elastic IPs",
    ("vpc", "L-F678F1CE"): "VPCs per Region",
    ("vpc", "L-FE5A380F"): "NAT gateways per Availability Zone",
    ("ebs", "L-7A658B76"): "Storage for General Purpose SSD (gp3) volumes, in TiB",
    ("fsx", "L-8F1B9C74"): "Lustre Persistent_2 storage capacity",
    ("fsx", "L-C8640C82"): "Lustre Persistent_1 storage capacity",
    ("fsx", "L-AD2FC696"): "Lustre Scratch storage capacity",
}


class ServiceQuotas(ServiceQuotasResponse):
    faults: Faults

    def list_service_quotas(self) -> str:
        """In pages, as AWS does: SageMaker has many."""
        asked = json.loads(self.body)
        start, size = int(asked.get("NextToken") or 0), int(asked.get("MaxResults") or 100)
        found = self._of_sagemaker() if asked.get("ServiceCode") == "sagemaker" else self._of_ec2()
        more = {"NextToken": str(start + size)} if start + size < len(found) else {}
        return json.dumps({"Quotas": found[start : start + size]} | more)

    def list_aws_default_service_quotas(self) -> str:
        if self._asked("ServiceCode") == "sagemaker":
            return self.list_service_quotas()
        if self._asked("ServiceCode") != "ec2":
            moto_answer: str = super().list_aws_default_service_quotas()
            return moto_answer
        return json.dumps({"Quotas": self._of_ec2()})

    def get_service_quota(self) -> str:
        name = QUOTA_NAMES.get((self._asked("ServiceCode"), self._asked("QuotaCode")))
        if name:
            return json.dumps({"Quota": self._quota(name)})
        if self._asked("ServiceCode") not in ("ec2", "sagemaker"):
            moto_answer: str = super().get_service_quota()
            return moto_answer
        for quota in (*self._of_ec2(), *self._of_sagemaker()):
            if quota["QuotaCode"] == self._asked("QuotaCode"):
                return json.dumps({"Quota": quota})
        raise JsonRESTError("NoSuchResourceException", "The request failed because the specified quota does not exist.")

    def _asked(self, name: str) -> str:
        return str(json.loads(self.body).get(name))

    def _quota(self, name: str) -> dict[str, object]:
        service, code = self._asked("ServiceCode"), self._asked("QuotaCode")
        lowered = self.faults.quota(code)
        usual = quotas.MOST_ADDRESSES if code == quotas.ADDRESSES else quotas.UNLIMITED
        return {
            "ServiceCode": service,
            "QuotaArn": f"arn:aws:servicequotas:{self.region}:{self.current_account}:{service}/{code}",
            "QuotaCode": code,
            "QuotaName": name,
            "Value": usual if lowered is None else lowered,
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }

    def _of_ec2(self) -> list[dict[str, object]]:
        if self._asked("ServiceCode") != "ec2":
            return []
        return [quotas.shown(self.faults, quota, self.region, self.current_account) for quota in quotas.QUOTAS]

    def _of_sagemaker(self) -> list[dict[str, object]]:
        if self._asked("ServiceCode") != "sagemaker":
            return []
        return [training.shown(self.faults, name, self.region, self.current_account) for name in training.names()]


def install(faults: Faults) -> None:
    moto.servicequotas.urls.url_paths["{0}/$"] = bound(ServiceQuotas, faults=faults).dispatch
