"""Requests that logs, metrics, topics and budgets refuse: telemetry.py, notifications.py and texts.py in
localcloud/validation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from localcloud.tests.in_process import InProcess
from localcloud.tests.refusal_cases import ACCOUNT, Case, hold, new, subnet


def metric(cloudwatch: Any, **more: Any) -> Any:
    return cloudwatch.put_metric_data(Namespace="n", MetricData=[{"MetricName": "m", "Value": 1} | more])


def points(cloudwatch: Any, count: int) -> Any:
    end = datetime(2026, 1, 2, tzinfo=UTC)
    return cloudwatch.get_metric_statistics(
        Namespace="n", MetricName="m", StartTime=end - timedelta(minutes=count), EndTime=end, Period=60,
        Statistics=["Sum"],
    )  # fmt: skip


def budget(budgets: Any, name: str, *thresholds: int, address: str = "a@b.test") -> str:
    wanted = {"TimeUnit": "MONTHLY", "BudgetType": "COST", "BudgetLimit": {"Amount": "1", "Unit": "USD"}}
    told = {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN"}
    whom = [{"SubscriptionType": "EMAIL", "Address": address}]
    notifications = [{"Notification": told | {"Threshold": each}, "Subscribers": whom} for each in thresholds]
    budgets.create_budget(
        AccountId=ACCOUNT, Budget={"BudgetName": name} | wanted, NotificationsWithSubscribers=notifications
    )
    return name


def stream(logs: Any) -> dict[str, str]:
    names = {"logGroupName": new(), "logStreamName": "s"}
    logs.create_log_group(logGroupName=names["logGroupName"])
    logs.create_log_stream(**names)
    return names


def events(logs: Any, *times: int, message: str = "x") -> Any:
    log_events = [{"timestamp": time, "message": message} for time in times]
    return logs.put_log_events(**stream(logs), logEvents=log_events)


LOGS: dict[str, Case] = {
    "retention": (lambda c, _: c.put_retention_policy(logGroupName="g", retentionInDays=8),
                  "InvalidParameterException", 400),
    "order": (lambda c, _: events(c, 2, 1), "InvalidParameterException", 400),
    "a day": (lambda c, _: events(c, 0, 86400001), "InvalidParameterException", 400),
    "size": (lambda c, _: events(c, *[0] * 5, message="x" * 220000), "InvalidParameterException", 400),
    "no group": (lambda c, _: c.get_log_events(logGroupName="g", logStreamName="s"),
                 "ResourceNotFoundException", 400),
    "token": (lambda c, _: c.describe_log_groups(nextToken="bogus"), "InvalidParameterException", 400),
    "reserved tag": (lambda c, _: c.create_log_group(logGroupName=new(), tags={"aws:x": "y"}),
                     "InvalidParameterException", 400),
}  # fmt: skip


def alarm(cloudwatch: Any, **more: Any) -> Any:
    wanted = {
        "AlarmName": new(), "Namespace": "n", "MetricName": "m", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1,
        "ComparisonOperator": "GreaterThanThreshold", "Statistic": "Average",
    }  # fmt: skip
    return cloudwatch.put_metric_alarm(**{key: value for key, value in (wanted | more).items() if value is not None})


def recovering(cloudwatch: Any, cloud: InProcess, type_: str | None) -> Any:
    instance_id = "i-0123456789abcdef0"
    if type_:
        ec2 = cloud.client("ec2")
        image = ec2.describe_images(Filters=[{"Name": "architecture", "Values": ["x86_64"]}])["Images"][0]["ImageId"]
        run = ec2.run_instances(ImageId=image, InstanceType=type_, SubnetId=subnet(cloud), MinCount=1, MaxCount=1)
        instance_id = run["Instances"][0]["InstanceId"]
    return alarm(
        cloudwatch,
        Namespace="AWS/EC2",
        MetricName="StatusCheckFailed_System",
        Dimensions=[{"Name": "InstanceId", "Value": instance_id}],
        AlarmActions=["arn:aws:automate:us-east-1:ec2:recover"],
    )


METRICS: dict[str, Case] = {
    "recovery of m6i": (lambda c, cloud: recovering(c, cloud, "m6i.large"), "", 200),
    "recovery of g5": (lambda c, cloud: recovering(c, cloud, "g5.xlarge"), "ValidationError", 400),
    "recovery of nothing": (lambda c, cloud: recovering(c, cloud, None), "ValidationError", 400),
    "alarm": (lambda c, _: alarm(c), "", 200),
    "period": (lambda c, _: alarm(c, Period=7), "ValidationError", 400),
    "more than a day": (lambda c, _: alarm(c, Period=300, EvaluationPeriods=289), "ValidationError", 400),
    "no statistic": (lambda c, _: alarm(c, Statistic=None), "ValidationError", 400),
    "datapoints": (lambda c, _: alarm(c, DatapointsToAlarm=2), "ValidationError", 400),
    "AWS's namespace": (lambda c, _: c.put_metric_data(Namespace="AWS/EC2", MetricData=[
        {"MetricName": "m", "Value": 1}]), "InvalidParameterValue", 400),
    "action": (lambda c, _: alarm(c, AlarmActions=["nope"]), "ValidationError", 400),
    "missing data": (lambda c, _: alarm(c, TreatMissingData="maybe"), "ValidationError", 400),
    "three weeks old": (lambda c, _: metric(c, Timestamp=datetime.now(UTC) - timedelta(days=21)),
                        "InvalidParameterValue", 400),
    "a week old": (lambda c, _: metric(c, Timestamp=datetime.now(UTC) - timedelta(days=7)), "", 200),
    "resolution": (lambda c, _: metric(c, StorageResolution=5), "InvalidParameterValue", 400),
    "points": (lambda c, _: points(c, 1441), "InvalidParameterCombination", 400),
    "points of a day": (lambda c, _: points(c, 1440), "", 200),
    "dashboard's name": (lambda c, _: c.put_dashboard(DashboardName="a b", DashboardBody='{"widgets": []}'),
                         "InvalidParameterValue", 400),
}  # fmt: skip


def subscribe(sns: Any, protocol: str, endpoint: str) -> Any:
    topic = sns.create_topic(Name=new())["TopicArn"]
    return sns.subscribe(TopicArn=topic, Protocol=protocol, Endpoint=endpoint)


SNS: dict[str, Case] = {
    "name": (lambda c, _: c.create_topic(Name="a b"), "InvalidParameter", 400),
    "attribute": (lambda c, _: c.set_topic_attributes(
        TopicArn=c.create_topic(Name=new())["TopicArn"], AttributeName="Colour", AttributeValue="red"),
        "InvalidParameter", 400),
    "mail": (lambda c, _: subscribe(c, "email", "nobody"), "InvalidParameter", 400),
    "protocol": (lambda c, _: subscribe(c, "pigeon", "x"), "InvalidParameter", 400),
    "https": (lambda c, _: subscribe(c, "https", "http://x"), "InvalidParameter", 400),
    "no topic": (lambda c, _: c.publish(TopicArn=f"arn:aws:sns:us-east-1:{ACCOUNT}:nobody", Message="x"),
                 "NotFound", 404),
    "no ARN": (lambda c, _: c.publish(TopicArn="nobody", Message="x"), "InvalidParameter", 400),
    "nothing said": (lambda c, _: c.publish(TopicArn=c.create_topic(Name=new())["TopicArn"], Message=""),
                     "InvalidParameter", 400),
    "policy": (lambda c, _: c.set_topic_attributes(
        TopicArn=c.create_topic(Name=new())["TopicArn"], AttributeName="Policy", AttributeValue="nope"),
        "InvalidParameter", 400),
}  # fmt: skip


BUDGETS: dict[str, Case] = {
    "somebody else's": (lambda c, _: c.create_budget(AccountId="210987654321", Budget={
        "BudgetName": new(), "TimeUnit": "MONTHLY", "BudgetType": "COST"}), "AccessDeniedException", 400),
    "eleven mails": (lambda c, _: c.create_budget(AccountId=ACCOUNT, Budget={
        "BudgetName": new(), "TimeUnit": "MONTHLY", "BudgetType": "COST",
        "BudgetLimit": {"Amount": "1", "Unit": "USD"}}, NotificationsWithSubscribers=[{
            "Notification": {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 80},
            "Subscribers": [{"SubscriptionType": "EMAIL", "Address": f"a{n}@b.test"} for n in range(11)]}]),
        "CreationLimitExceededException", 400),
    "name": (lambda c, _: budget(c, "a:b"), "ValidationException", 400),
    "no budget": (lambda c, _: c.describe_notifications_for_budget(AccountId=ACCOUNT, BudgetName="nobody"),
                  "NotFoundException", 400),
    "eleven notifications": (lambda c, _: budget(c, new(), *range(11)), "ValidationException", 400),
    "no mail address": (lambda c, _: budget(c, new(), 80, address="nobody"), "InvalidParameterException", 400),
}  # fmt: skip

TABLES = {"logs": LOGS, "cloudwatch": METRICS, "sns": SNS, "budgets": BUDGETS}


@pytest.mark.parametrize(("service", "name"), [(service, name) for service, cases in TABLES.items() for name in cases])
def test_requests_that_the_service_refuses(cloud: InProcess, service: str, name: str) -> None:
    hold(cloud, service, TABLES[service][name])
