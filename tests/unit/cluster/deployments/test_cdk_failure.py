"""The reason of a failed run of the CDK command line.

The outputs are those of aws-cdk 2.1148.1 against the local cloud, mostly for a user who has docs/policies/deployer.json
and lacks what the file's name says. Paths are shortened.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucluster.cluster import cdk_failure

RECORDED = Path(__file__).resolve().parents[3] / "data" / "cdk"
ROLES = ", ".join(f"cdk-hnb659fds-{role}-role-123456789012-us-east-1" for role in ("file-publishing", "deploy"))
BUCKET = "arn:aws:s3:::cdk-hnb659fds-assets-123456789012-us-east-1"
FILE = "003ba0ea89ddd82041c360d2da2fc8bf00820039db3107ae434fb18f78a8fe03.json"
REASONS = {
    "bootstrap-denied": "Environment aws://123456789012/us-east-1 failed bootstrapping: AccessDenied: User: "
    "arn:aws:iam::123456789012:user/dep is not authorized to perform: cloudformation:CreateChangeSet because no "
    "identity-based policy allows the cloudformation:CreateChangeSet action",
    "assume-role-denied": "User: arn:aws:iam::123456789012:user/na is not authorized to perform: s3:PutObject on "
    f"resource: {BUCKET}/GpuCluster/{FILE} because no identity-based policy allows the s3:PutObject action "
    f"(your credentials may not assume {ROLES})",
    "wrong-key": "The request signature we calculated does not match the signature you provided. Check your AWS "
    "Secret Access Key and signing method. Consult the service documentation for details.",
    "app-fails": "cluster.yaml:3:13: error: partitions: must have at least one entry, got [] [cluster-has-partitions]",
    "no-answer": "connect ECONNREFUSED 127.0.0.1:9",
    "not-bootstrapped": "Parameter /cdk-bootstrap/orgq/version not found.",
}


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDED.glob("*.txt")))
def test_the_reason_is_the_message_that_says_most(name: str) -> None:
    assert cdk_failure.reason((RECORDED / f"{name}.txt").read_text().splitlines()) == REASONS[name]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        # a cause without a message and one beneath it; an app that raises; the error object as Node.js shows it
        (["GpuCluster failed", "‣ AggregateError: ", "‣ Error: connect ETIMEDOUT"], "connect ETIMEDOUT"),
        (["Traceback:", '  File "app.py"', "KeyError: 'x'", "app.py: Subprocess exited with error 1"], "KeyError: 'x'"),
        ([" ❌  A failed: Error: it is", "    at f (index.js:1:2) {", "  code: 'X',", "  Error: [Object]", "}"],
         "A failed: Error: it is"),
        ([], "no output"),
    ],
)  # fmt: skip
def test_traces_and_shown_objects_are_no_reasons(output: list[str], reason: str) -> None:
    assert cdk_failure.reason(output) == reason
