"""Log groups, dashboard, alarms and the budget of a synthesized cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from test_stacks_roles import allowing, flat, resources, statements

from gpucluster.render import watching

Template = dict[str, Any]
TemplateOf = Callable[[str], Template]

KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
PLAIN = """
name: Mine
region: us-east-1
partitions: [{name: train, instance_types: [p4d.24xlarge], max_nodes: 8}]
"""
FULL = f"""{PLAIN}
storage: [{{mount: /fsx, type: fsx-lustre, capacity_gib: 4800}}]
accounting: local
monitoring: {{log_days: 30, alarm_email: me@example.com}}
budget: {{monthly_usd: 500000, email: me@example.com, at_limit: stop-launches}}
"""
WITH_KEY = f"{FULL}\nsecurity: {{kms_key_arn: {KEY}}}\n"
WITHOUT = f"{PLAIN}\nmonitoring: {{dashboard: false}}\nbudget: {{monthly_usd: 500000}}\n"


def of_type(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in template["Resources"].items() if each["Type"] == kind}


def only(template: Template, kind: str) -> dict[str, Any]:
    (found,) = of_type(template, kind).values()
    properties: dict[str, Any] = found.get("Properties", {})
    return properties


def alarms(template: Template) -> dict[str, dict[str, Any]]:
    found = (each["Properties"] for each in of_type(template, "AWS::CloudWatch::Alarm").values())
    return {each["AlarmName"]: each for each in found if each.get("AlarmName", "").startswith("Mine-")}


def log_groups(template: Template) -> dict[str, dict[str, Any]]:
    found = of_type(template, "AWS::Logs::LogGroup").values()
    return {each["Properties"]["LogGroupName"]: each for each in found}


def test_every_log_group_has_a_retention_and_is_deleted_with_the_stack(template_of: TemplateOf) -> None:
    groups = log_groups(template_of(FULL))
    for log in ("boot", "power", "slurmctld", "slurmdbd", "slurmd", "jobs"):
        group = groups[watching.log_group("Mine", log)]
        assert group["Properties"]["RetentionInDays"] == 30
        assert group["DeletionPolicy"] == "Delete"
        assert "KmsKeyId" not in group["Properties"]


def test_log_groups_are_created_before_the_head_node(template_of: TemplateOf) -> None:
    template = template_of(FULL)
    ours = {name for name in of_type(template, "AWS::Logs::LogGroup") if name.startswith("MonitoringLogs")}
    (head,) = of_type(template, "AWS::EC2::Instance").values()
    assert ours and ours <= set(head["DependsOn"])


def test_the_customers_key_encrypts_logs_and_topic(template_of: TemplateOf) -> None:
    template = template_of(WITH_KEY)
    assert {each["Properties"]["KmsKeyId"] for each in log_groups(template).values()} == {KEY}
    assert only(template, "AWS::SNS::Topic")["KmsMasterKeyId"] == KEY
    assert not of_type(template, "AWS::KMS::Key")


@pytest.mark.parametrize(
    ("role", "logs", "namespaces"),
    [
        ("HeadRole", {"boot", "power", "slurmctld", "slurmdbd", "jobs"}, ["GpuCluster", "GpuCluster/Mine"]),
        ("ComputeRole", {"boot", "slurmd"}, ["GpuCluster/Mine"]),
    ],
)
def test_nodes_write_to_their_own_logs_and_namespaces(
    template_of: TemplateOf, role: str, logs: set[str], namespaces: list[str]
) -> None:
    template = template_of(FULL)
    (ship,) = allowing(template, role, "logs:PutLogEvents")
    wanted = {f"arn:${{AWS::Partition}}:logs:us-east-1:123456789012:log-group:/gpucluster/Mine/{log}:*" for log in logs}
    assert set(resources(ship)) == wanted
    (put,) = allowing(template, role, "cloudwatch:PutMetricData")
    assert put["Condition"] == {"StringEquals": {"cloudwatch:namespace": namespaces}}


def test_a_removed_log_may_be_written_until_the_head_knows(template_of: TemplateOf) -> None:
    template = template_of(PLAIN + "\naccounting: off\n")
    (ship,) = allowing(template, "HeadRole", "logs:PutLogEvents")
    assert any("/gpucluster/Mine/slurmdbd:" in each for each in resources(ship))
    assert not [each for each in log_groups(template) if "slurmdbd" in each.lower()]


def test_the_topic_accepts_this_accounts_alarms_over_tls(template_of: TemplateOf) -> None:
    template = template_of(FULL)
    deny, admit = only(template, "AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert (admit["Effect"], admit["Principal"]) == ("Allow", {"Service": "cloudwatch.amazonaws.com"})
    assert admit["Condition"]["StringEquals"] == {"aws:SourceAccount": "123456789012"}
    key = only(template, "AWS::KMS::Key")
    assert key["EnableKeyRotation"] is True
    assert {"Service": "cloudwatch.amazonaws.com"} in [each["Principal"] for each in key["KeyPolicy"]["Statement"]]
    assert only(template, "AWS::SNS::Subscription")["Endpoint"] == "me@example.com"


def test_alarms(template_of: TemplateOf) -> None:
    found = alarms(template_of(FULL))
    topic = {"Ref": next(iter(of_type(template_of(FULL), "AWS::SNS::Topic")))}
    shown = {
        name.removeprefix("Mine-"): (each["Namespace"], each["MetricName"], each["Threshold"], each["TreatMissingData"])
        for name, each in found.items()
        if each["AlarmActions"] == [topic]
    }
    assert shown == {
        "slurm-silent": ("GpuCluster", "Heartbeat", 1, "breaching"),
        "root-disk-full": ("GpuCluster/Mine", "disk_used_percent", 85, "missing"),
        "home-disk-full": ("GpuCluster/Mine", "disk_used_percent", 85, "missing"),
        "launches-refused": ("GpuCluster", "LaunchFailures", 1, "notBreaching"),
        "fsx-full": ("AWS/FSx", "FreeDataStorageCapacity", 480 * 1024**3, "missing"),
    }


def test_alarms_watch_what_the_agent_of_the_head_sends(template_of: TemplateOf) -> None:
    """Exactly its dimensions, or the alarm never sees a value."""
    for name, path in (("Mine-root-disk-full", "/"), ("Mine-home-disk-full", "/home")):
        dimensions = {each["Name"]: each["Value"] for each in alarms(template_of(FULL))[name]["Dimensions"]}
        assert dimensions == {"Node": "head", "path": path}


def test_alarms_are_created_after_the_head_node(template_of: TemplateOf) -> None:
    template = template_of(FULL)
    live = set(of_type(template, "AWS::CloudFormation::WaitCondition"))
    for each in of_type(template, "AWS::CloudWatch::Alarm").values():
        if each["Properties"].get("AlarmName", "").startswith("Mine-"):
            assert live <= set(each["DependsOn"])


def test_the_heads_recovery_alarms_notify_too(template_of: TemplateOf) -> None:
    template = template_of(FULL)
    topic = {"Ref": next(iter(of_type(template, "AWS::SNS::Topic")))}
    remedies = [
        each["Properties"]["AlarmActions"]
        for each in of_type(template, "AWS::CloudWatch::Alarm").values()
        if each["Properties"]["MetricName"].startswith("StatusCheckFailed")
    ]
    assert len(remedies) == 2
    assert all(len(each) == 2 and topic in each for each in remedies)


def test_the_head_publishes_notices_of_jobs_to_the_same_topic_alone(template_of: TemplateOf) -> None:
    template = template_of(FULL)
    topic = {"Ref": next(iter(of_type(template, "AWS::SNS::Topic")))}
    found = [each for each in statements(template, "HeadRole") if "sns:Publish" in str(each["Action"])]
    assert [each["Resource"] for each in found] == [topic]
    parameters = [each["Properties"] for each in of_type(template, "AWS::SSM::Parameter").values()]
    (value,) = [each["Value"] for each in parameters if str(each["Name"]).endswith("/topic")]
    assert value == {"Fn::Join": ["", ['{"arn":"', topic, '"}']]}


def test_without_an_address_there_is_no_notification(template_of: TemplateOf) -> None:
    template = template_of(WITHOUT)
    assert alarms(template) and all("AlarmActions" not in each for each in alarms(template).values())
    assert not of_type(template, "AWS::SNS::Topic")
    assert not of_type(template, "AWS::CloudWatch::Dashboard")


def widgets(template: Template) -> list[dict[str, Any]]:
    body = json.loads(flat(only(template, "AWS::CloudWatch::Dashboard")["DashboardBody"]))
    found: list[dict[str, Any]] = body["widgets"]
    return found


SHOWN = (
    "NodesByState",
    "JobsByState",
    "LaunchFailures",
    "UsdPerHour",
    "nvidia_smi_utilization_gpu",
    "efa_tx_bytes",
    "cpu_usage_active",
    "disk_used_percent",
    "FreeDataStorageCapacity",
    "DataReadBytes",
)


@pytest.mark.parametrize("metric", SHOWN)
def test_the_dashboard_shows(template_of: TemplateOf, metric: str) -> None:
    assert metric in json.dumps([each["properties"].get("metrics") for each in widgets(template_of(FULL))])


def test_searches_name_namespace_dimensions_and_cluster(template_of: TemplateOf) -> None:
    expressions = [
        metric["expression"]
        for widget in widgets(template_of(FULL))
        for line in widget["properties"].get("metrics", [])
        for metric in line
        if isinstance(metric, dict) and "expression" in metric
    ]
    assert expressions
    of_cluster = (
        r"SEARCH\('\{GpuCluster,Cluster,Partition(,State|,Code)?\} MetricName=\"\w+\" Cluster=\"Mine\"', '\w+', \d+\)"
    )
    of_nodes = r"SEARCH\('\{\"GpuCluster/Mine\",(Node|InstanceId)\} MetricName=\"\w+\"', '\w+', \d+\)"
    for expression in expressions:
        assert re.fullmatch(f"{of_cluster}|{of_nodes}", expression), expression


def test_widgets_do_not_lie_on_one_another(template_of: TemplateOf) -> None:
    taken: set[tuple[int, int]] = set()
    for each in widgets(template_of(FULL)):
        cells = {
            (x, y)
            for x in range(each["x"], each["x"] + each["width"])
            for y in range(each["y"], each["y"] + each["height"])
        }
        assert not cells & taken, each["properties"]["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_a_budget_counts_the_clusters_tag(template_of: TemplateOf) -> None:
    budget = only(template_of(FULL), "AWS::Budgets::Budget")
    data = budget["Budget"]
    assert data["CostFilters"] == {"TagKeyValue": ["user:gpucluster:cluster$Mine"]}
    assert (data["BudgetType"], data["TimeUnit"]) == ("COST", "MONTHLY")
    assert data["BudgetLimit"] == {"Amount": 500000, "Unit": "USD"}
    notifications = [
        (each["Notification"]["NotificationType"], each["Notification"]["Threshold"])
        for each in budget["NotificationsWithSubscribers"]
    ]
    assert notifications == [("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)]


def test_a_budget_with_other_subscribers_has_another_name(template_of: TemplateOf) -> None:
    """CloudFormation replaces it, and makes the new one before it removes the old one."""
    names = [
        only(template_of(text), "AWS::Budgets::Budget")["Budget"]["BudgetName"]
        for text in (FULL, FULL.replace("email: me@", "email: you@"), FULL.replace("500000", "600000"))
    ]
    assert names[0] != names[1]
    assert names[0] == names[2]


def test_a_spent_budget_stops_launches_and_nothing_else(template_of: TemplateOf) -> None:
    template = template_of(FULL)
    action = only(template, "AWS::Budgets::BudgetsAction")
    assert action["BudgetName"] == only(template, "AWS::Budgets::Budget")["Budget"]["BudgetName"]
    assert action["ActionThreshold"] == {"Type": "PERCENTAGE", "Value": 100}
    assert (action["NotificationType"], action["ApprovalModel"]) == ("ACTUAL", "AUTOMATIC")
    definition = action["Definition"]["IamActionDefinition"]
    (policy,) = of_type(template, "AWS::IAM::ManagedPolicy")
    assert definition["PolicyArn"] == {"Ref": policy}
    assert [each["Ref"] for each in definition["Roles"]] == [
        next(n for n in template["Resources"] if n.startswith("HeadRole"))
    ]
    properties = only(template, "AWS::IAM::ManagedPolicy")
    assert "Roles" not in properties
    assert properties["PolicyDocument"]["Statement"] == [
        {"Action": ["ec2:RunInstances", "ec2:CreateFleet"], "Effect": "Deny", "Resource": "*"}
    ]


def test_aws_budgets_may_attach_that_policy_to_the_head_alone(template_of: TemplateOf) -> None:
    template = template_of(FULL)
    role = next(
        each for name, each in of_type(template, "AWS::IAM::Role").items() if name.startswith("BudgetStopLaunchesRole")
    )
    (trust,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "budgets.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": "123456789012"}
    (may,) = statements(template, "BudgetStopLaunchesRole")
    assert resources(may)[0].startswith("${HeadRole")
    (policy,) = of_type(template, "AWS::IAM::ManagedPolicy")
    assert may["Condition"] == {"ArnEquals": {"iam:PolicyARN": {"Ref": policy}}}


def test_a_budget_that_only_notifies_attaches_nothing(template_of: TemplateOf) -> None:
    template = template_of(WITHOUT)
    assert "NotificationsWithSubscribers" not in only(template, "AWS::Budgets::Budget")
    assert not of_type(template, "AWS::Budgets::BudgetsAction")
