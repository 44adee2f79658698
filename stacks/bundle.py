"""The nodes' data: a bundle of files made at synthesis, and parameters whose values exist only after
deployment."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct, IDependable

from gpucluster.render import NODES_BUNDLE
from stacks.arns import arn, s3_arn

BOOT_TIMEOUT_S = 1800


class Parameters(Construct):
    """Small JSON values under one path of SSM. A standard parameter has at most 4 KB."""

    def __init__(self, scope: Construct, id_: str, *, path: str) -> None:
        super().__init__(scope, id_)
        self.path = path
        self.arn = self.arn_of("*")
        self._stack = cdk.Stack.of(self)

    def arn_of(self, name: str) -> str:
        return arn(self, "ssm", f"parameter/{self.path.strip('/')}/{name}")

    def add(self, id_: str, name: str, value: Mapping[str, Any] | str) -> ssm.StringParameter:
        text = value if isinstance(value, str) else self._stack.to_json_string(value)
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
        """The CDK command line uploads the archive.

        CDK's construct for this, aws_s3_assets.Asset, loads CDK's libraries of S3, KMS and of AWS's regions, and copies
        the files: an eighth of the synthesis. Two hundred files for the command line to pack take four times as long
        as packing them.
        """
        digest = sha256(repr(sorted(files.items())).encode()).hexdigest()
        file = Path(cdk.Stage.of(self).asset_outdir, f"asset.{digest}.zip")  # type: ignore[union-attr]
        file.write_bytes(_packed(files))
        # The stack has a bound copy, which jsii cannot return; this object and the copy share the list of assets.
        synthesizer.bind(cdk.Stack.of(self))
        return synthesizer.add_file_asset(
            file_name=file.name,
            packaging=cdk.FileAssetPackaging.FILE,
            source_hash=digest,
            display_name=f"{self.node.id}/Archive",
        )

    def objects_arn(self, prefix: str) -> str:
        """The ARN of the objects in the archive's bucket whose names begin with `prefix`/."""
        return s3_arn(self, f"{self.archive.bucket_name}/{prefix}/*")

    def announce(self, parameters: Parameters, *after: IDependable) -> None:
        """`after`: resources that the version uses. A head node applies the version as soon as it is announced, during
        the update.

        Anybody with the wait handle's URL can end the update, as a success or a failure. So only the head node may read
        the parameter with it."""
        value = self._address() | {"wait_handle_url": self.handle.ref, "head_generation": self.head_generation}
        self._add(parameters, "Bundle", "bundle", value, after)

    def announce_to_nodes(self, parameters: Parameters, *after: IDependable) -> None:
        """Writes what compute nodes read. Called before `announce`: the head node starts nodes of the new version."""
        self._add(parameters, "NodesBundle", NODES_BUNDLE, self._address(), after)

    def _address(self) -> dict[str, str]:
        return {"version": self.version, "s3_uri": self.archive.s3_object_url}

    def _add(
        self, parameters: Parameters, id_: str, name: str, value: dict[str, str], after: Sequence[IDependable]
    ) -> None:
        others = list(parameters.node.children)
        parameters.add(id_, name, value).node.add_dependency(*others, *after)

    def wait_until_live(self, *after: IDependable, scripts_s: int = 0) -> cdk.CfnWaitCondition:
        """`scripts_s`: how long the user's own scripts may take."""
        condition = cdk.CfnWaitCondition(
            self,
            f"Live{self.version}{self.head_generation}",
            handle=self.handle.ref,
            count=1,
            timeout=str(BOOT_TIMEOUT_S + scripts_s),
        )
        condition.node.add_dependency(*after)
        return condition


def _packed(files: Mapping[str, str]) -> bytes:
    """The same files make the same bytes: no entry has a time."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16  # a person who unpacks it can read the files
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
