"""Placeholders for CDK's look-ups in an account, for use without credentials. The template can be read but not
deployed."""

from __future__ import annotations

from gpucluster.config import ClusterConfig
from gpucluster.config.checks.online.images import PUBLIC_PARAMETERS

NO_ACCOUNT = "no-credentials"
"""CDK's own error about a deployment shows it: `Need to perform AWS calls for account no-credentials, but …`. In a
checkout CDK also warns that it has no 12 digits (CloudFormation-Validate::W9012), and writes the template."""
IMAGE = "ami-00000000000000000"
NOTE = "no AWS credentials: zones and images in the template are placeholders; `cdk deploy` needs credentials"


def context(config: ClusterConfig) -> dict[str, object]:
    """Without these, CDK asks for credentials on several lines and writes no template."""
    place = f"account={NO_ACCOUNT}"
    images = {f"ssm:{place}:parameterName={name}:region={config.region}": IMAGE for name in PUBLIC_PARAMETERS.values()}
    zones = [f"{config.region}{letter}" for letter in "abc"]
    if config.availability_zone and config.availability_zone not in zones:
        zones.append(config.availability_zone)  # CDK refuses a subnet in a zone that the account lacks
    return {f"availability-zones:{place}:region={config.region}": zones, **images}
