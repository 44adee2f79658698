"""Every validator that calls AWS: its message for each answer, and for no answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from online_cases import all_online
from online_cases.case import Answers, Denied, Online, Scripted

from gpucluster.cluster import online
from gpucluster.config import loads
from gpucluster.config.checks import every, findings
from gpucluster.config.checks.online import quotas
from gpucluster.config.checks.online.account import Refused
from gpucluster.config.document import Finding, key_of
from gpucluster.errors import ConfigError, Notice, QuotaError
from gpucluster.hardware.instances import INSTANCE_TYPES

CASES = all_online()
ONLINE = sorted(name for name, each in every().items() if each.needs == "aws")
TABLE = [(name, case) for name in sorted(CASES) for case in CASES[name]]


def said(name: str, cluster: dict[str, Any], answers: Answers) -> list[Finding]:
    return list(findings(every()[name], loads(json.dumps(cluster)), Scripted(answers)))


def test_every_online_validator_has_a_case() -> None:
    assert sorted(CASES) == ONLINE


@pytest.mark.parametrize(("name", "case"), TABLE, ids=[name for name, _ in TABLE])
def test_each_online_validator_accepts_one_answer_and_refuses_another(name: str, case: Online) -> None:
    (finding,) = said(name, case.cluster, case.fails)
    assert (key_of(finding.path), finding.message) == (case.key, case.says)
    assert (finding.level, finding.validator) == (every()[name].level, name)
    assert said(name, case.cluster, case.passes) == []


@pytest.mark.parametrize("name", ONLINE)
def test_an_unanswered_question_is_a_warning(name: str) -> None:
    config = loads(json.dumps(CASES[name][0].cluster))
    found = list(findings(every()[name], config, Denied()))
    assert [finding.level for finding in found] == ["warning"] * len(found)
    assert found and all(finding.message.startswith("could not be checked: ") for finding in found)
    assert all(finding.message.endswith(": AccessDenied") for finding in found)


def test_a_bucket_in_another_region_is_refused_only_without_a_route_to_it() -> None:
    for cluster in ({"s3_access": [{"uri": "s3://bucket/a"}]}, {"software": {"cache": "s3://bucket/a"}}):
        keys = {**CASES["bucket-exists"][0].cluster, "storage": [], **cluster}
        assert said("bucket-in-region", keys, {"s3 head_bucket": {"BucketRegion": "eu-west-1"}}) == []


def test_a_bucket_without_permission_does_not_stop_the_check_of_others() -> None:
    class Guarded(Scripted):
        def ask(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
            if parameters.get("Bucket") == "theirs":
                raise Refused("s3 HeadBucket", "403", "")
            return super().ask(service, operation, **parameters)

    (case, *_) = [each for each in CASES["bucket-exists"] if each.key == "storage[0].source"]
    config = loads(json.dumps({**case.cluster, "software": {"cache": "s3://theirs"}}))
    missing, refused = findings(every()["bucket-exists"], config, Guarded({"s3 head_bucket": "404"}))
    assert (key_of(missing.path), missing.level) == ("storage[0].source", "error")
    assert refused.message == "could not be checked: s3 HeadBucket: 403"


@pytest.mark.parametrize("type_", {name.partition(".")[0]: name for name in INSTANCE_TYPES}.values())
def test_each_family_counts_against_a_quota(type_: str) -> None:
    assert quotas.quota_code(type_, spot=False)
    assert quotas.quota_code(type_, spot=True) or type_.startswith(("p6", "hpc", "u"))


def notice(validator: str, level: Any = "error") -> Notice:
    return Notice(level, "cluster.yaml", 1, 1, "a", "b", validator=validator)


def test_a_refusal_is_reported_once() -> None:
    refused = "could not be checked: service-quotas GetServiceQuota: AccessDenied"
    found = [notice(name, "warning")._replace(message=refused) for name in ("quota-vcpus", "quota-vpcs", "quota-vcpus")]
    (merged, other) = online._without_repeats([found[0], notice("quota-disks"), *found[1:]])
    assert (merged.validator, merged.message, merged.hint) == ("quota-vcpus", refused, "also not checked: quota-vpcs")
    assert other.validator == "quota-disks"


def test_a_wrong_file_exits_with_2_and_a_lacking_account_with_3() -> None:
    online.refuse([notice("image-exists", "warning")])
    with pytest.raises(QuotaError) as lacking:
        online.refuse([notice("quota-vpcs"), notice("quota-disks", "warning")])
    assert (lacking.value.exit_code, len(lacking.value.problems)) == (3, 1)
    with pytest.raises(ConfigError) as wrong:
        online.refuse([notice("quota-vpcs"), notice("image-exists")])
    assert (wrong.value.exit_code, len(wrong.value.problems)) == (2, 2)


def test_a_subnet_whose_nodes_have_a_proxy_needs_no_route_to_the_internet() -> None:
    case = CASES["subnet-leads-out"][0]
    assert "network.proxy" in str(said("subnet-leads-out", case.cluster, case.fails)[0].hint)
    keys = {**case.cluster, "network": {**case.cluster["network"], "proxy": "http://10.0.0.3:3128"}}
    assert said("subnet-leads-out", keys, case.fails) == []
