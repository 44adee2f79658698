"""AWS::SecretsManager::Secret."""

from __future__ import annotations

import json

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
