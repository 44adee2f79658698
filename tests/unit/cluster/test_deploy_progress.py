"""The messages while CDK deploys, and after a failure."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from gpucluster.cluster import cdk, cdk_failure, stack
from gpucluster.cluster.progress import WAIT_CONDITION, Progress, describe, with_heartbeat

VPC_DONE = "GpuCluster |  3/47 | 12:05:55 PM | CREATE_COMPLETE      | AWS::EC2::VPC | Network/Vpc (NetworkVpc7FB) "
VPC_BEGINS = "GpuCluster |  2/47 | 12:05:50 PM | CREATE_IN_PROGRESS   | AWS::EC2::VPC | Network/Vpc (NetworkVpc7FB) "
WAITS = (
    "GpuCluster | 46/47 | 12:06:10 PM | CREATE_IN_PROGRESS   | AWS::CloudFormation::WaitCondition "
    "| Bundle/Live0123 (BundleLive0123) "
)
FAILED = (
    "GpuCluster | 46/47 | 12:07:10 PM | CREATE_FAILED        | AWS::CloudFormation::WaitCondition "
    "| Bundle/Live0123 (BundleLive0123) step=slurm line=42: no such file (log /var/log/gpucluster/boot.log)"
)


def heard(*lines: str | None, console: str = "", console_before: str = "") -> list[str]:
    messages: list[str] = []
    shown = iter([console_before])
    progress = Progress(messages.append, lambda: next(shown, console))
    for line in lines:
        progress.heard(line)
    return messages


def test_an_event_line_is_read() -> None:
    event = cdk.parse_event(FAILED)
    assert event is not None
    assert (event.status, event.type) == ("CREATE_FAILED", "AWS::CloudFormation::WaitCondition")
    assert event.resource.endswith("step=slurm line=42: no such file (log /var/log/gpucluster/boot.log)")


@pytest.mark.parametrize("line", ["", " ✅  GpuCluster", "GpuCluster: deploying... [1/1]", "Outputs:"])
def test_another_line_is_no_event(line: str) -> None:
    assert cdk.parse_event(line) is None


def test_an_event_of_a_deletion_is_read() -> None:
    line = "GpuCluster |   9 | 12:29:59 PM | DELETE_COMPLETE         | AWS::EC2::VPC  | Network/Vpc (NetworkVpc7F)"
    event = cdk.parse_event(line)
    assert event is not None and (event.status, event.construct) == ("DELETE_COMPLETE", "Network/Vpc")


def test_completed_and_failed_resources_are_shown_and_started_ones_are_not() -> None:
    messages = heard(VPC_BEGINS, VPC_DONE, FAILED)
    assert [line.split()[0] for line in messages] == ["CREATE_COMPLETE", "CREATE_FAILED"]
    assert "step=slurm line=42" in messages[1]


def test_the_head_nodes_boot_steps_are_shown_once_during_the_wait() -> None:
    console = "cloud-init: x\nstep=name status=started\nstep=name status=ok seconds=1\nstep=slurm status=started\n"
    messages = heard(None, WAITS, None, None, console=console)
    assert messages == [
        "waiting for the head node to boot and to report that Slurm is up",
        "head node: step=name status=ok seconds=1",
        "head node: step=slurm status=started",
    ]


def test_the_steps_of_an_earlier_boot_are_not_shown_again() -> None:
    before = "step=name status=ok\n"
    messages = heard(WAITS, None, console=before + "step=dns status=ok\n", console_before=before)
    assert messages[1:] == ["head node: step=dns status=ok"]


def test_a_head_node_that_reaches_no_bundle_says_so_during_the_wait() -> None:
    """It cannot signal a failure: the address for signals is in the bundle. A wrong proxy is one cause."""
    said = (
        "step=user-data: no bundle: https://ssm.us-east-1.amazonaws.com/ <urlopen error [Errno 111] Connection refused>"
    )
    messages = heard(WAITS, None, None, console=f"cloud-init[68]: {said}\n")
    assert messages[1:] == [f"head node: {said}"]


def test_the_summary_at_the_end_of_a_failure_is_not_shown() -> None:
    messages = heard(FAILED, "Failed resources:", FAILED, "❌  GpuCluster failed to deploy")
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("type_", "reason", "wanted"),
    [
        (
            WAIT_CONDITION,
            "WaitCondition received failed message: 'step=slurm line=42: no such file' for uniqueId: bundle-1",
            "the head node did not boot: step=slurm line=42: no such file",
        ),
        (
            WAIT_CONDITION,
            "WaitCondition timed out",
            "the head node did not report that it is ready: WaitCondition timed out",
        ),
        ("AWS::EC2::VPC", "too many VPCs", "Thing (AWS::EC2::VPC): too many VPCs"),
    ],
)
def test_a_failure_with_the_head_nodes_reason(type_: str, reason: str, wanted: str) -> None:
    assert describe(stack.StackEvent("1", "Thing", type_, "CREATE_FAILED", reason)) == wanted


def test_a_silence_is_noticed_and_no_line_is_lost() -> None:
    def slow() -> Iterator[str]:
        yield "a"
        time.sleep(0.3)
        yield "b"

    received = list(with_heartbeat(slow(), 0.1))
    assert [line for line in received if line is not None] == ["a", "b"]
    assert None in received


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (["✨  Synthesis", "❌ GpuCluster failed: no credentials", "more"], "GpuCluster failed: no credentials"),
        (["Traceback", "ConfigError: cluster.yaml: 2 problems"], "ConfigError: cluster.yaml: 2 problems"),
        (["only this"], "only this"),
        ([], "no output"),
    ],
)
def test_cdks_error_is_shown(said: list[str], wanted: str) -> None:
    assert cdk_failure.reason(said) == wanted


def raw(number: int, resource: str, status: str, reason: str = "", type_: str = "AWS::EC2::VPC") -> dict[str, str]:
    return {
        "EventId": str(number),
        "LogicalResourceId": resource,
        "ResourceType": type_,
        "ResourceStatus": status,
        "ResourceStatusReason": reason,
        "StackId": "arn:aws:cloudformation:us-east-1:123456789012:stack/GpuCluster/1",
        "StackName": "GpuCluster",
        "Timestamp": "2026-01-01T00:00:00Z",
    }


def test_the_first_failure_of_the_last_operation_is_the_reason() -> None:
    import boto3
    from botocore.stub import Stubber

    whole = "AWS::CloudFormation::Stack"
    newest_first = [
        raw(9, "GpuCluster", "ROLLBACK_COMPLETE", type_=whole),
        raw(8, "Subnet", "CREATE_FAILED", "Resource creation Cancelled"),
        raw(7, "Route", "CREATE_FAILED", "followed from it"),
        raw(6, "Live", "CREATE_FAILED", "step=slurm line=42: no such file"),
        raw(5, "GpuCluster", "CREATE_IN_PROGRESS", type_=whole),
        raw(4, "Old", "CREATE_FAILED", "of an earlier attempt"),
    ]
    client = boto3.client("cloudformation", "us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stubber:
        stubber.add_response("describe_stack_events", {"StackEvents": newest_first}, {"StackName": "GpuCluster"})
        failure = stack.first_failure(client, "GpuCluster")
        stubber.assert_no_pending_responses()
    assert failure is not None and failure.reason == "step=slurm line=42: no such file"
