"""The nodes' data: a bundle of files made at synthesis, and parameters whose values exist only after
deployment."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct, IDependable

BOOT_TIMEOUT_S = 1800


class Parameters(Construct):
    """Small JSON values under one path of SSM. A standard parameter has at most 4 KB."""

    def __init__(self, scope: Construct, id_: str, *, path: str) -> None:
        super().__init__(scope, id_)
        self.path = path
        self.arn = cdk.Stack.of(self).format_arn(
            service="ssm", resource="parameter", resource_name=f"{path.strip('/')}/*"
        )

    def add(self, id_: str, name: str, value: Mapping[str, Any] | str) -> ssm.StringParameter:
        text = value if isinstance(value, str) else cdk.Stack.of(self).to_json_string(value)
        return ssm.StringParameter(self, id_, parameter_name=f"{self.path}{name}", string_value=text)


class Bundle(Construct):
    """A version of the bundle: its archive, and a wait condition that the head node signals once the version is
    applied."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        files: Mapping[str, str],
        version: str,
        head_generation: str,
        synthesizer: cdk.DefaultStackSynthesizer,
    ) -> None:
        """`head_generation`: the generation of the head node that applies it (see stacks/head.py). `synthesizer`: the
        object that the stack was made with."""
        super().__init__(scope, id_)
        self.version = version
        self.head_generation = head_generation
        self.archive = self._archive(files, synthesizer)
        # A wait condition can be fulfilled only once, so each version has one for each head node.
        self.handle = cdk.CfnWaitConditionHandle(self, f"Handle{version}{head_generation}")

    def _archive(self, files: Mapping[str, str], synthesizer: cdk.DefaultStackSynthesizer) -> cdk.FileAssetLocation:
        """The CDK command line makes the archive and uploads it.

        CDK's construct for this, aws_s3_assets.Asset, loads CDK's libraries of S3, KMS and of AWS's regions, and copies
        the files: an eighth of the synthesis.
        """
        digest = sha256(repr(sorted(files.items())).encode()).hexdigest()
        folder = Path(cdk.Stage.of(self).asset_outdir, f"asset.{digest}")  # type: ignore[union-attr]
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        # The stack has a bound copy, which jsii cannot return; this object and the copy share the list of assets.
        synthesizer.bind(cdk.Stack.of(self))
        return synthesizer.add_file_asset(
            file_name=folder.name,
            packaging=cdk.FileAssetPackaging.ZIP_DIRECTORY,
            source_hash=digest,
            display_name=f"{self.node.id}/Archive",
        )

    def objects_arn(self, prefix: str) -> str:
        """Of the objects in the archive's bucket whose names begin with `prefix`/."""
        return f"arn:{cdk.Stack.of(self).partition}:s3:::{self.archive.bucket_name}/{prefix}/*"

    def announce(self, parameters: Parameters, *after: IDependable) -> None:
        """`after`: resources that the version uses. A head node applies the version as soon as it is announced, during
        the update."""
        value = {
            "version": self.version,
            "s3_uri": self.archive.s3_object_url,
            "wait_handle_url": self.handle.ref,
            "head_generation": self.head_generation,
        }
        others = list(parameters.node.children)
        parameters.add("Bundle", "bundle", value).node.add_dependency(*others, *after)

    def wait_until_live(self, *after: IDependable) -> cdk.CfnWaitCondition:
        condition = cdk.CfnWaitCondition(
            self,
            f"Live{self.version}{self.head_generation}",
            handle=self.handle.ref,
            count=1,
            timeout=str(BOOT_TIMEOUT_S),
        )
        condition.node.add_dependency(*after)
        return condition
