"""AWS::IAM and AWS::KMS."""

from __future__ import annotations

from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    dropped_tag_keys,
    only,
    resource,
    tag_list,
    without,
)


@resource(
    "AWS::IAM::Role",
    updatable="AssumeRolePolicyDocument Description ManagedPolicyArns MaxSessionDuration PermissionsBoundary "
    "Policies Tags",
)
class Role(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("RoleName") or call.name(64)
        given = without(properties, "ManagedPolicyArns", "Policies", "RoleName", "Tags")
        call.api("iam", "create_role", given, RoleName=name, Tags=tag_list(call, properties))
        call.announce(name)
        self._attach(call, name, {}, properties)
        return self._made(call, name)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        trust = new["AssumeRolePolicyDocument"]
        if trust != old.get("AssumeRolePolicyDocument"):
            call.api("iam", "update_assume_role_policy", RoleName=physical_id, PolicyDocument=trust)
        call.api("iam", "update_role", only(new, "Description", "MaxSessionDuration"), RoleName=physical_id)
        self._bound(call, physical_id, new.get("PermissionsBoundary"), old.get("PermissionsBoundary"))
        self._attach(call, physical_id, old, new)
        dropped = dropped_tag_keys(call, old, new)
        if dropped:
            call.api("iam", "untag_role", RoleName=physical_id, TagKeys=dropped)
        tags = tag_list(call, new)
        if tags:
            call.api("iam", "tag_role", RoleName=physical_id, Tags=tags)
        return self._made(call, physical_id)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        self._attach(call, physical_id, properties, {})
        call.api("iam", "delete_role", RoleName=physical_id)

    def _bound(self, call: Call, name: str, new: str | None, old: str | None) -> None:
        if new and new != old:
            call.api("iam", "put_role_permissions_boundary", RoleName=name, PermissionsBoundary=new)
        elif old and not new:
            call.api("iam", "delete_role_permissions_boundary", RoleName=name)

    def _attach(self, call: Call, name: str, old: Properties, new: Properties) -> None:
        before, after = list(old.get("ManagedPolicyArns") or []), list(new.get("ManagedPolicyArns") or [])
        for arn in after:
            if arn not in before:
                call.api("iam", "attach_role_policy", RoleName=name, PolicyArn=arn)
        for arn in before:
            if arn not in after:
                call.if_there("iam", "detach_role_policy", RoleName=name, PolicyArn=arn)
        kept = {policy["PolicyName"] for policy in new.get("Policies") or []}
        for policy in new.get("Policies") or []:
            call.api("iam", "put_role_policy", policy, RoleName=name)
        for policy in old.get("Policies") or []:
            if policy["PolicyName"] not in kept:
                call.if_there("iam", "delete_role_policy", RoleName=name, PolicyName=policy["PolicyName"])

    def _made(self, call: Call, name: str) -> Made:
        role = call.api("iam", "get_role", RoleName=name)["Role"]
        return Made(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})


_HOLDERS = {"Roles": ("role", "RoleName"), "Users": ("user", "UserName"), "Groups": ("group", "GroupName")}


@resource("AWS::IAM::Policy", updatable="Groups PolicyDocument PolicyName Roles Users")
class InlinePolicy(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        self._put(call, properties)
        return Made(call.name(), {"Id": properties["PolicyName"]})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        same_name = old["PolicyName"] == new["PolicyName"]
        gone = {
            kind: [name for name in old.get(kind) or [] if not same_name or name not in (new.get(kind) or [])]
            for kind in _HOLDERS
        }
        self._put(call, new)
        self.delete(call, physical_id, {"PolicyName": old["PolicyName"], **gone})
        return Made(physical_id, {"Id": new["PolicyName"]})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        for kind, (word, key) in _HOLDERS.items():
            for name in properties.get(kind) or []:
                given = {key: name, "PolicyName": properties["PolicyName"]}
                call.if_there("iam", f"delete_{word}_policy", **given)

    def _put(self, call: Call, properties: Properties) -> None:
        for kind, (word, key) in _HOLDERS.items():
            for name in properties.get(kind) or []:
                given = only(properties, "PolicyName", "PolicyDocument")
                call.api("iam", f"put_{word}_policy", {key: name, **given})


@resource("AWS::IAM::ManagedPolicy", updatable="Groups PolicyDocument Roles Users")
class ManagedPolicy(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("ManagedPolicyName") or call.name(128)
        given = only(properties, "Description", "Path", "PolicyDocument")
        arn = call.api("iam", "create_policy", given, PolicyName=name)["Policy"]["Arn"]
        call.announce(arn)
        self._hold(call, arn, {}, properties)
        return Made(arn, {"PolicyArn": arn})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        if old["PolicyDocument"] != new["PolicyDocument"]:
            self._drop_old_versions(call, physical_id)
            document = new["PolicyDocument"]
            call.api("iam", "create_policy_version", PolicyArn=physical_id, PolicyDocument=document, SetAsDefault=True)
        self._hold(call, physical_id, old, new)
        return Made(physical_id, {"PolicyArn": physical_id})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        self._hold(call, physical_id, properties, {})
        self._drop_old_versions(call, physical_id)
        call.api("iam", "delete_policy", PolicyArn=physical_id)

    def _drop_old_versions(self, call: Call, arn: str) -> None:
        """A policy has at most five versions, and can be deleted only with one."""
        for version in call.api("iam", "list_policy_versions", PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                call.api("iam", "delete_policy_version", PolicyArn=arn, VersionId=version["VersionId"])

    def _hold(self, call: Call, arn: str, old: Properties, new: Properties) -> None:
        for kind, (word, key) in _HOLDERS.items():
            before, after = old.get(kind) or [], new.get(kind) or []
            for name in after:
                if name not in before:
                    call.api("iam", f"attach_{word}_policy", {key: name, "PolicyArn": arn})
            for name in before:
                if name not in after:
                    call.if_there("iam", f"detach_{word}_policy", **{key: name, "PolicyArn": arn})


@resource("AWS::IAM::InstanceProfile", updatable="Roles")
class InstanceProfile(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("InstanceProfileName") or call.name(128)
        made = call.api("iam", "create_instance_profile", only(properties, "Path"), InstanceProfileName=name)
        call.announce(name)
        self._hold(call, name, {}, properties)
        # AWS's CloudFormation waits two minutes here, so that a launch will know the profile.
        call.wait(lambda: call.knows_profile(name), f"{name} known to EC2")
        return Made(name, {"Arn": made["InstanceProfile"]["Arn"]})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        self._hold(call, physical_id, old, new)
        made = call.api("iam", "get_instance_profile", InstanceProfileName=physical_id)
        return Made(physical_id, {"Arn": made["InstanceProfile"]["Arn"]})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        self._hold(call, physical_id, properties, {})
        call.api("iam", "delete_instance_profile", InstanceProfileName=physical_id)

    def _hold(self, call: Call, name: str, old: Properties, new: Properties) -> None:
        before, after = old.get("Roles") or [], new.get("Roles") or []
        for role in before:
            if role not in after:
                call.if_there("iam", "remove_role_from_instance_profile", InstanceProfileName=name, RoleName=role)
        for role in after:
            if role not in before:
                call.api("iam", "add_role_to_instance_profile", InstanceProfileName=name, RoleName=role)


@resource("AWS::KMS::Key", updatable="Description EnableKeyRotation Enabled KeyPolicy PendingWindowInDays Tags")
class Key(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = only(properties, "Description", "KeySpec", "KeyUsage", "MultiRegion", "Origin")
        tags = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in tag_list(call, properties)]
        policy = properties.get("KeyPolicy")
        made = call.api("kms", "create_key", given, Policy=policy, Tags=tags)["KeyMetadata"]
        call.announce(made["KeyId"])
        self._set_rotation(call, made["KeyId"], properties)
        return Made(made["KeyId"], {"Arn": made["Arn"], "KeyId": made["KeyId"]})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        policy = new.get("KeyPolicy")
        if policy and policy != old.get("KeyPolicy"):
            call.api("kms", "put_key_policy", KeyId=physical_id, PolicyName="default", Policy=policy)
        call.api("kms", "update_key_description", KeyId=physical_id, Description=new.get("Description", ""))
        self._set_rotation(call, physical_id, new)
        made = call.api("kms", "describe_key", KeyId=physical_id)["KeyMetadata"]
        return Made(physical_id, {"Arn": made["Arn"], "KeyId": physical_id})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        days = properties.get("PendingWindowInDays", 30)
        call.api("kms", "schedule_key_deletion", KeyId=physical_id, PendingWindowInDays=days)

    def _set_rotation(self, call: Call, key_id: str, properties: Properties) -> None:
        if "EnableKeyRotation" in properties:
            wanted = str(properties["EnableKeyRotation"]).lower() == "true"
            call.api("kms", "enable_key_rotation" if wanted else "disable_key_rotation", KeyId=key_id)


@resource("AWS::KMS::Alias", updatable="TargetKeyId", delete="kms delete_alias AliasName")
class Alias(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        call.api("kms", "create_alias", properties)
        return Made(properties["AliasName"])

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        call.api("kms", "update_alias", new)
        return Made(physical_id)
