"""A file system that lives with jobs: what the stack makes for it, and what the head node asks FSx for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from test_stacks_roles import flat

from gpucluster import render
from gpucluster.config import loads
from gpucluster.config.storage.fsx import lifetime as fsx_jobs

Template = dict[str, Any]
TemplateOf = Callable[[str], Template]

KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
CLUSTER = f"""
name: Mine
region: us-east-1
availability_zone: us-east-1a
partitions: [{{name: train, instance_types: [p5.48xlarge], max_nodes: 4}}]
security: {{kms_key_arn: "{KEY}"}}
storage:
  - {{mount: /scratch/burst, type: fsx-lustre, lifetime: jobs, idle_minutes: 2.5, MORE,
     data_repositories: [{{path: /in/, s3: "s3://my-bucket/in", import: [new, changed], export: [deleted]}},
                         {{path: /kept, s3: "s3://other-bucket"}}]}}
"""
DEPLOYMENTS = {
    "persistent-2": "compression: lz4",
    "persistent-2 with EFA": "efa: true, capacity_gib: 9600, metadata_iops: 12000",
    "persistent-1": "deployment: persistent-1, throughput_mbps_per_tib: 100, capacity_gib: 2400",
    "scratch-2": "deployment: scratch-2, capacity_gib: 1200",
}
SYSTEM = "fs-0123456789abcdef0"
FSX = ("AWS::FSx::FileSystem", "AWS::FSx::DataRepositoryAssociation")


def text(deployment: str) -> str:
    return CLUSTER.replace("MORE", DEPLOYMENTS[deployment])


def that_stays(deployment: str) -> str:
    return text(deployment).replace("lifetime: jobs, idle_minutes: 2.5, ", "")


def of_type(template: Template, *types: str) -> Iterator[dict[str, Any]]:
    return (each["Properties"] for each in template["Resources"].values() if each["Type"] in types)


def parameter_of(template: Template) -> dict[str, Any]:
    """The parameter; what only CloudFormation knows stands as ${LogicalId}."""
    (found,) = (each for each in of_type(template, "AWS::SSM::Parameter") if "/storage/" in each["Name"])
    assert found["Name"] == "/gpucluster/Mine/storage/scratch-burst"
    value: dict[str, Any] = json.loads(flat(found["Value"]))
    return value


def flattened(value: Any) -> Any:
    """With functions of CloudFormation as text."""
    if isinstance(value, dict) and not (len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref"))):
        return {key: flattened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [flattened(each) for each in value]
    return flat(value) if isinstance(value, dict) else value


def tags(properties: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in properties.pop("Tags")}


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_the_head_asks_for_what_cloudformation_would(template_of: TemplateOf, deployment: str) -> None:
    parameter = parameter_of(template_of(text(deployment)))
    (system,) = of_type(template_of(that_stays(deployment)), FSX[0])
    wanted = flattened(system)
    assert tags(parameter["request"]) == tags(wanted) == {"Name": "Mine-scratch-burst", "gpucluster:cluster": "Mine"}
    assert parameter["request"] == wanted
    links = [flattened(each) for each in of_type(template_of(that_stays(deployment)), FSX[1])]
    assert len(links) == len(parameter["links"]) == 2
    for link, asked in zip(links, parameter["links"], strict=True):
        assert asked | {"FileSystemId": link["FileSystemId"], "Tags": link["Tags"]} == link
        assert tags(asked) == tags(link)


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_boto3_takes_both_calls(template_of: TemplateOf, deployment: str) -> None:
    parameter = parameter_of(template_of(text(deployment)))
    model = botocore.session.get_session().get_service_model("fsx")
    calls = [("CreateFileSystem", parameter["request"])]
    calls += [("CreateDataRepositoryAssociation", {"FileSystemId": SYSTEM, **link}) for link in parameter["links"]]
    for operation, given in calls:
        shape = model.operation_model(operation).input_shape
        assert ParamValidator().validate(given, shape).generate_report() == ""
        misspelt = json.loads(
            json.dumps(given).replace("LogConfiguration", "Logs").replace("AutoExportPolicy", "Export")
        )
        assert given == misspelt or "Unknown parameter" in ParamValidator().validate(misspelt, shape).generate_report()


def test_nodes_know_how_long_it_lives_and_not_where_it_is(template_of: TemplateOf) -> None:
    parameter = parameter_of(template_of(text("persistent-2 with EFA")))
    assert set(parameter) == {"type", "mount", "lifetime", "efa", "version", "request", "links"}
    assert (parameter["lifetime"], parameter["efa"], parameter["version"]) == ("jobs", True, "2.15")
    (mount,) = render.storage(loads(text("scratch-2")))["mounts"]
    assert (mount["lifetime"], mount["idle_s"], mount["data_repositories"]) == ("jobs", 150, ["/in/", "/kept"])
    (stays,) = render.storage(loads(that_stays("scratch-2")))["mounts"]
    assert mount == stays | {"lifetime": "jobs", "idle_s": 150}


@pytest.mark.parametrize("deployment", ["persistent-2", "persistent-2 with EFA"])
def test_everything_except_the_file_system_is_created(template_of: TemplateOf, deployment: str) -> None:
    """The same security group with the same rules, and the same log group."""
    ours, theirs = template_of(text(deployment)), template_of(that_stays(deployment))
    assert not list(of_type(ours, *FSX))
    kinds = ("AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")
    for kind in (*kinds, "AWS::Logs::LogGroup"):
        assert list(of_type(ours, kind)) == list(of_type(theirs, kind))
    assert [each for each in of_type(ours, "AWS::Logs::LogGroup") if each["LogGroupName"].startswith("/aws/fsx/Mine/")]


def test_the_check_knows_how_long_the_parameter_is(template_of: TemplateOf) -> None:
    """With the names that AWS gives, whose lengths it knows, in the places of ${LogicalId}."""
    config = loads(text("persistent-2"))
    (storage,) = config.lustre_with_jobs
    value = parameter_of(template_of(text("persistent-2")))
    value["request"]["SubnetIds"] = ["subnet-0123456789abcdef0"]
    value["request"]["SecurityGroupIds"] = ["sg-0123456789abcdef0"]
    log = value["request"]["LustreConfiguration"]["LogConfiguration"]
    log["Destination"] = log["Destination"].replace("${AWS::Partition}", "aws")
    assert "$" not in json.dumps(value)
    assert len(json.dumps(value, separators=(",", ":"))) == fsx_jobs._length(storage, config)


def test_the_dashboard_does_not_show_it(template_of: TemplateOf) -> None:
    def shown(cluster: str) -> list[str]:
        return [flat(each["DashboardBody"]) for each in of_type(template_of(cluster), "AWS::CloudWatch::Dashboard")]

    assert not [each for each in shown(text("scratch-2")) if "AWS/FSx" in each]
    assert [each for each in shown(that_stays("scratch-2")) if "AWS/FSx" in each], "where others are"


def policy(template: Template) -> dict[str, Any]:
    (found,) = of_type(template, "AWS::IAM::ManagedPolicy")
    return found


def test_only_the_head_has_the_permission_from_boot_to_end(template_of: TemplateOf) -> None:
    template = template_of(text("scratch-2"))
    (role,) = policy(template)["Roles"]
    assert role["Ref"].startswith("HeadRole")
    (id_,) = [name for name, each in template["Resources"].items() if each["Type"] == "AWS::IAM::ManagedPolicy"]
    (head,) = [each for each in template["Resources"].values() if each["Type"] == "AWS::EC2::Instance"]
    assert id_ in head["DependsOn"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_fsx_uses_the_customers_key_in_the_heads_name(template_of: TemplateOf, deployment: str) -> None:
    """FSx's user guide, Data encryption at rest: what is required. Scratch has FSx's own key."""
    statements = policy(template_of(text(deployment)))["PolicyDocument"]["Statement"]
    found = {str(each["Action"]): each for each in statements if "kms:" in str(each["Action"])}
    if deployment.startswith("scratch"):
        return None if not found else pytest.fail(str(found))
    actions = {action for each in found.values() for action in _list(each["Action"])}
    wanted = {"kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext"}
    assert actions == wanted and {each["Resource"] for each in found.values()} == {KEY}
    for each in found.values():
        assert each["Condition"]["StringEquals"] == {"kms:ViaService": "fsx.us-east-1.amazonaws.com"}
    assert found["kms:CreateGrant"]["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_it_fits_into_one_managed_policy(template_of: TemplateOf) -> None:
    """6,144 characters, blanks not counted: the longest names, eight buckets, and the longest prefixes of which the
    request fits into its parameter."""
    before, _, rest = text("persistent-2").partition("data_repositories")

    def named(prefix: str) -> str:
        uris = [f"s3://{str(i) * 63}{'/' * bool(prefix)}{prefix}" for i in range(8)]
        links = ", ".join(f'{{path: /{i}, s3: "{uri}", import: [new]}}' for i, uri in enumerate(uris))
        return f"{before.replace('name: Mine', 'name: ' + 'M' * 40)}data_repositories: [{links}]}}\n"

    config = loads(named(""))
    room = fsx_jobs.PARAMETER_BYTES - fsx_jobs._length(config.lustre_with_jobs[0], config)
    assert rest and room > 200
    (found,) = of_type(template_of(named("p" * (room // 8 - 1))), "AWS::IAM::ManagedPolicy")
    document = json.dumps(flattened(found["PolicyDocument"]), separators=(",", ":"))
    assert 2000 < len(document) < 6144


def test_linked_buckets_may_have_the_clusters_key(template_of: TemplateOf) -> None:
    statements = [
        statement
        for each in of_type(template_of(text("scratch-2")), "AWS::IAM::Policy")
        if each["Roles"][0]["Ref"].startswith("HeadRole")
        for statement in each["PolicyDocument"]["Statement"]
        if statement.get("Condition") == {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}
    ]
    assert [each["Action"] for each in statements] == [["kms:Decrypt", "kms:GenerateDataKey"]]


def test_a_spent_budget_prevents_new_file_systems(template_of: TemplateOf) -> None:
    """A job that waits for nodes would keep it, and no node comes."""
    budget = "budget: {monthly_usd: 900000, email: a@example.com, at_limit: stop-launches}\n"
    policies = of_type(template_of(text("scratch-2") + budget), "AWS::IAM::ManagedPolicy")
    (denied,) = [
        each for found in policies for each in found["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"
    ]
    assert denied["Action"] == ["ec2:RunInstances", "ec2:CreateFleet", "fsx:CreateFileSystem"]


def test_a_cluster_whose_file_systems_stay_grants_nothing(template_of: TemplateOf) -> None:
    template = template_of(that_stays("persistent-2"))
    assert not list(of_type(template, "AWS::IAM::ManagedPolicy"))
    assert "fsx:" not in json.dumps(list(of_type(template, "AWS::IAM::Policy")))
