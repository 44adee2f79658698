"""AWS::SecretsManager::Secret and AWS::DynamoDB::Table."""

from __future__ import annotations

import json
from typing import Any

from localcloud.cloudformation.errors import ResourceError
from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    only,
    resource,
    tag_list,
    without,
)


@resource("AWS::SecretsManager::Secret", updatable="Description GenerateSecretString KmsKeyId SecretString Tags")
class Secret(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("Name") or call.name(64)
        text = self._text(call, properties)
        given = only(properties, "Description", "KmsKeyId")
        tags = tag_list(call, properties)
        made = call.api("secretsmanager", "create_secret", given, Name=name, SecretString=text, Tags=tags)
        return Made(made["ARN"], {"Id": made["ARN"]})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        given = only(new, "Description", "KmsKeyId")
        names = ("SecretString", "GenerateSecretString")
        # An unchanged GenerateSecretString keeps the secret that it generated.
        text = self._text(call, new) if only(old, *names) != only(new, *names) else None
        call.api("secretsmanager", "update_secret", given, SecretId=physical_id, SecretString=text)
        return Made(physical_id, {"Id": physical_id})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("secretsmanager", "delete_secret", SecretId=physical_id, ForceDeleteWithoutRecovery=True)

    def _text(self, call: Call, properties: Properties) -> str | None:
        recipe = properties.get("GenerateSecretString")
        if recipe is not None and "SecretString" in properties:
            raise ResourceError("You can't specify both SecretString and GenerateSecretString.")
        if recipe is None:
            return properties.get("SecretString")
        given = without(recipe, "SecretStringTemplate", "GenerateStringKey")
        password = str(call.api("secretsmanager", "get_random_password", given)["RandomPassword"])
        if "GenerateStringKey" not in recipe:
            return password
        template = json.loads(recipe.get("SecretStringTemplate", "{}"))
        return json.dumps({**template, recipe["GenerateStringKey"]: password})


@resource(
    "AWS::DynamoDB::Table",
    updatable="AttributeDefinitions BillingMode DeletionProtectionEnabled GlobalSecondaryIndexes "
    "PointInTimeRecoverySpecification ProvisionedThroughput SSESpecification StreamSpecification TableClass Tags "
    "TimeToLiveSpecification",
)
class Table(Handler):
    _separately = ("PointInTimeRecoverySpecification", "TimeToLiveSpecification", "Tags", "TableName")

    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("TableName") or call.name(255)
        given = self._spelled(without(properties, *self._separately))
        call.api("dynamodb", "create_table", given, TableName=name, Tags=tag_list(call, properties))
        call.announce(name)
        call.wait(lambda: self._describe(call, name)["TableStatus"] == "ACTIVE", f"table {name} becoming active")
        self._configure(call, name, properties)
        return self._made(call, name)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        names = ("BillingMode", "ProvisionedThroughput", "DeletionProtectionEnabled", "TableClass")
        changed = {name: new[name] for name in names if name in new and new[name] != old.get(name)}
        if changed:
            call.api("dynamodb", "update_table", changed, TableName=physical_id)
        self._configure(call, physical_id, new)
        return self._made(call, physical_id)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("dynamodb", "delete_table", TableName=physical_id)
        there = {"TableName": physical_id}
        call.wait(lambda: not call.if_there("dynamodb", "describe_table", **there), f"table {physical_id} going away")

    def _spelled(self, given: dict[str, Any]) -> dict[str, Any]:
        encryption = given.get("SSESpecification")
        if encryption is not None:
            renamed = {"Enabled": encryption.get("SSEEnabled"), **without(encryption, "SSEEnabled")}
            given["SSESpecification"] = {key: value for key, value in renamed.items() if value is not None}
        if "StreamSpecification" in given:
            given["StreamSpecification"] = {"StreamEnabled": True, **given["StreamSpecification"]}
        return given

    def _configure(self, call: Call, name: str, properties: Properties) -> None:
        lifetime = properties.get("TimeToLiveSpecification")
        if lifetime:
            call.api("dynamodb", "update_time_to_live", TableName=name, TimeToLiveSpecification=lifetime)
        backups = properties.get("PointInTimeRecoverySpecification")
        if backups:
            given = {"PointInTimeRecoverySpecification": backups}
            call.api("dynamodb", "update_continuous_backups", given, TableName=name)

    def _describe(self, call: Call, name: str) -> Any:
        return call.api("dynamodb", "describe_table", TableName=name)["Table"]

    def _made(self, call: Call, name: str) -> Made:
        table = self._describe(call, name)
        return Made(name, {"Arn": table["TableArn"], "StreamArn": table.get("LatestStreamArn", "")})
