"""Incomplete profiles and credentials: botocore itself reads them, and no call reaches AWS."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import warm

ROOT = Path(__file__).resolve().parents[3]
SSO = """[profile x]
sso_session = s
sso_account_id = 123456789012
sso_role_name = r
[sso-session s]
sso_region = us-east-1
sso_start_url = https://x.awsapps.com/start
"""
HELPER = "[profile x]\ncredential_process = {}\n"
PROCESS = "the credentials of the profile x cannot be read: "
CASES = {
    "a banner": (
        HELPER.format("""printf 'Welcome to Corp\\n{"Version": 1}'"""),
        {"AWS_PROFILE": "x"},
        PROCESS + "the output of its credential_process is not JSON and begins with 'Welcome to Corp'",
        "hint: correct the profile; `aws sts get-caller-identity --profile x` tries it",
    ),
    "a secret on one line": (
        HELPER.format("""echo '{"Version": 1, "SecretAccessKey": "sEcReT"} and more'"""),
        {"AWS_PROFILE": "x"},
        PROCESS + "the output of its credential_process is not JSON: it must print one JSON object",
        "hint: correct the profile",
    ),
    "a list": (HELPER.format("echo [1]"), {"AWS_PROFILE": "x"}, PROCESS + "", "hint: correct the profile"),
    "no such helper": (
        HELPER.format("/no/such/helper"),
        {"AWS_PROFILE": "x"},
        PROCESS + "/no/such/helper: No such file or directory",
        "hint: correct the profile",
    ),
    "a helper that fails": (
        HELPER.format("sh -c 'echo session over >&2; exit 1'"),
        {"AWS_PROFILE": "x"},
        "the credentials of the profile x: Error when retrieving credentials from custom-process: session over",
        "hint: correct the profile",
    ),
    "a helper whose session is over": (
        HELPER.format(
            """echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c", """
            """"Expiration": "2020-01-01T00:00:00Z"}'"""
        ),
        {"AWS_PROFILE": "x"},
        "your AWS credentials have expired",
        "hint: log in again",
    ),
    "variables whose session is over": (
        "",
        {
            **{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"},
            "AWS_CREDENTIAL_EXPIRATION": "2020-01-01T00:00:00Z",
        },
        "your AWS credentials have expired",
        "set AWS_ACCESS_KEY_ID and the others anew",
    ),
    "a loop": (
        "[profile x]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = y\n"
        "[profile y]\nrole_arn = arn:aws:iam::123456789012:role/s\nsource_profile = x\n",
        {"AWS_PROFILE": "x"},
        "the credentials of the profile x: Infinite loop",
        "hint: correct the profile",
    ),
    "sso": (SSO, {"AWS_PROFILE": "x"}, "you are not logged in to AWS: ", "hint: aws sso login --profile x"),
    "half": ("", {"AWS_ACCESS_KEY_ID": "a"}, "missing: AWS_SECRET_ACCESS_KEY", "hint: run `aws sso login`"),
    "broken file": ("profile x]\nfoo", {}, "Unable to parse config file", "hint: correct that file"),
    "no profile": (
        "",
        {"AWS_PROFILE": "y"},
        "The config profile (y) could not be found",
        "`aws configure list-profiles`",
    ),
}


@pytest.mark.parametrize("verb", ["status", "plan", "up"])
@pytest.mark.parametrize("case", CASES)
def test_it_says_what_is_missing_and_what_to_type(case: str, verb: str, tmp_path: Path) -> None:
    text, variables, message, hint = CASES[case]
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(text)
    (tmp_path / "cluster.yaml").write_text((ROOT / "cluster.yaml").read_text())
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GPUCLUSTER_"))}
    done = warm.gpucluster(verb, cwd=tmp_path, env=kept | {"HOME": str(tmp_path)} | variables, timeout_s=60)
    assert done.returncode == 3, done.stderr
    assert message in done.stderr and hint in done.stderr
    assert "report this bug" not in done.stderr and "sEcReT" not in done.stderr
    assert ("g5.12xlarge" in done.stdout) == (verb == "plan")
