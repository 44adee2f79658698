"""Deploys and deletes the cluster's stack with the CDK command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from gpucluster import updates
from gpucluster.cluster import (
    bootstrapping,
    cdk,
    cdk_failure,
    failed_rollback,
    instance_states,
    register,
    stack,
    tagged_instances,
)
from gpucluster.cluster.budget_stop import BudgetStop
from gpucluster.cluster.deletion import every_node, vpc_contents
from gpucluster.cluster.progress import Progress, Role, Tell, as_cdk_tells, describe, with_heartbeat
from gpucluster.cluster.replacements import Replacements
from gpucluster.cluster.turn import Turn
from gpucluster.errors import CloudError, DeployError

HEARTBEAT_S = 5.0
LastChange = tuple[str, str] | None
OVERTAKEN = re.compile(
    r"ChangeSet \[\S+\] does not exist|ChangeSet \[\S+\] cannot be executed in its current .*"
    r"|An operation on this ChangeSet is currently in progress|is in \w+_IN_PROGRESS state and can ?not be updated"
)
"""What CloudFormation answers if another operation has begun: aws-cdk issues 14350 and 26182, amazon-chime-sdk-js issue
1089, aws-dotnet-deploy issue 689."""


class OvertakenError(DeployError):
    """Another run has changed the cluster at the same time."""


@dataclass(frozen=True)
class Clients:
    """The boto3 clients that deployments need, by service."""

    budgets: Any
    cloudformation: Any
    ec2: Any
    fsx: Any
    iam: Any
    rds: Any
    route53: Any
    ssm: Any
    sts: Any


@dataclass(frozen=True)
class Deployment:
    name: str
    region: str
    config_file: Path
    state_folder: Path
    aws: Callable[[], Mapping[str, str | None]]
    """Environment variables for the AWS SDKs: the region, credentials, and the endpoint of a local cloud."""
    clients: Clients
    tell: Tell
    options: tuple[str, ...] = ()
    """Options of the CDK command line for every verb."""
    role: Role = "head"
    """Roles of the instances that the stack waits for."""

    @cached_property
    def _turn(self) -> Turn:
        return Turn(self.state_folder, self.name)

    @property
    def log(self) -> Path:
        return self.state_folder / f"{self.name}.cdk.log"

    def outputs(self) -> dict[str, str]:
        return stack.outputs(self.clients.cloudformation, self.name)

    def status(self) -> str | None:
        return stack.status(self.clients.cloudformation, self.name)

    def deployed(self) -> updates.Deployed | None:
        """The cluster as last deployed; None if there is none. Raises UnknownRecord."""
        if not stack.has_cluster(self.status()):
            return None
        return updates.read(stack.template_metadata(self.clients.cloudformation, self.name))

    def account(self) -> str:
        """The caller's."""
        return str(self.clients.sts.get_caller_identity()["Account"])

    def register(self) -> None:
        """Later runs find out from it whether they are about this cluster."""
        register.add(self.config_file, name=self.name, region=self.region, account=self.account())

    def unregister(self) -> None:
        register.remove(self.config_file, name=self.name, region=self.region, account=self.account())

    def live_nodes(self) -> list[updates.LiveNode]:
        return [_live_node(instance) for instance in self.instances("compute")]

    def file_systems(self) -> set[str]:
        """Names of the cluster's file systems on FSx, created by CloudFormation or by the head node."""
        pages = self.clients.fsx.get_paginator("describe_file_systems").paginate()
        every = ({tag["Key"]: tag["Value"] for tag in each["Tags"]} for page in pages for each in page["FileSystems"])
        return {tags.get("Name", "") for tags in every if tags.get("gpucluster:cluster") == self.name}

    def turn(self, verb: str) -> AbstractContextManager[None]:
        """In its body, no other run of this folder changes the cluster. `verb`: that of gpucluster."""
        return self._turn.taken(verb, self.tell)

    def last_change(self) -> LastChange:
        return stack.last_change(self.clients.cloudformation, self.name)

    def up(
        self,
        inherited: Mapping[str, str],
        *,
        since: LastChange = None,
        launches_again: bool = False,
        replace_head: bool = False,
    ) -> bool:
        """False if the stack was already up to date. Raises DeployError.

        `since`: the last change when the caller compared the stack with the file. `launches_again`: lift a stop of
        launches by AWS Budgets. `replace_head`: replace the head node on purpose.
        """
        self.let_finish()
        self._refuse_if_changed(since)
        if failed_rollback.end(self.clients.cloudformation, self.name, self.tell, self.let_finish):
            since = self.last_change()
        self._unprotect_failed_creation()
        self._start_head()
        self._bootstrap(inherited)
        counted = self._replace_head(on_purpose=replace_head)
        launches = self._budget_stop().taken_back() if launches_again else nullcontext()
        with counted.unless_it_fails() if counted else nullcontext(), launches:
            return self._deploy(inherited, since, again="head replace" if counted else "up")

    def _deploy(self, inherited: Mapping[str, str], since: LastChange, *, again: str) -> bool:
        """Two runs never share a change set: the name is only this run's, and CDK executes it by its ARN. From its
        creation on, CloudFormation refuses to execute it after any other change."""
        self.tell(f"deploying to {self.region} (cdk deploy {self.name})")
        options = ("--require-approval", "never", "--progress", "events", "--change-set-name", f"up-{uuid4().hex}")

        def heard(line: str) -> None:
            if line.endswith("creating CloudFormation changeset..."):
                self._refuse_if_changed(since)

        try:
            said = self._run("deploy", inherited, *options, again=again, heard=heard)
            self._refuse_if_overwritten()
        except OvertakenError:  # what follows would disturb the other run
            raise
        except DeployError:
            self._end_replaced_heads()
            try:
                self._start_head()
            except CloudError as problem:  # the deployment's own failure is what the user must read in the end
                self.tell(f"{problem}; {problem.hint}")
            raise
        self._end_replaced_heads()
        return not any("(no changes)" in line for line in said)

    def _refuse_if_changed(self, since: LastChange) -> None:
        status = self.status()
        if stack.in_progress(status) or self.last_change() != since:
            raise self._overtaken(f"the stack is {status or 'deleted'} now")

    def _refuse_if_overwritten(self) -> None:
        wanted, there = cdk.bundle_version(self._assembly, self.name), self.outputs().get("BundleVersion")
        if wanted and wanted != there:
            raise self._overtaken(f"the cluster has the bundle {there}, and this run's is {wanted}")

    def _overtaken(self, what: str) -> OvertakenError:
        return OvertakenError(
            f"{self.name}: another run has changed the cluster at the same time: {what}",
            "`gpucluster plan` shows what is left to change; then run `gpucluster up` again",
        )

    def down(self, inherited: Mapping[str, str]) -> None:
        """Raises DeployError."""
        if self.status() != "CREATE_IN_PROGRESS":  # the stack may be incomplete
            self.let_finish()
        if self.status() is None:
            return
        own = self._belongings()
        guardduty = vpc_contents.has_guardduty(self.clients.ec2, own)
        every_node.end(self.clients.ec2, self.name, self.tell, head_too=guardduty)
        if guardduty:
            self.tell("deleting GuardDuty's endpoint and security group from the VPC, which may take ten minutes")
            vpc_contents.delete_guardduty(self.clients.ec2, own)
        every_node.remove_records(self.clients.cloudformation, self.clients.route53, self.name)
        self._budget_stop().detach()
        self.tell(f"deleting the stack {self.name}")
        self._run("destroy", inherited, "--force", again="down")

    def in_the_way(self, *, network_stays: bool = False) -> list[str]:
        """What is not the cluster's and keeps CloudFormation from deleting its network."""
        return vpc_contents.others(self.clients.ec2, self._belongings(network_stays=network_stays))

    def _belongings(self, *, network_stays: bool = False) -> vpc_contents.Belongings:
        clients = self.clients
        return vpc_contents.belongings(clients.cloudformation, clients.ec2, self.name, network_stays=network_stays)

    def _unprotect_failed_creation(self) -> None:
        """Its remains are deleted before the next attempt, which protects the stack again. Nobody has used them."""
        if self.status() in stack.NEVER_LIVE and self.protected():
            self.tell(f"{self.name} was never created: deleting what the last attempt left")
            self.lift_protection()

    def _end_replaced_heads(self) -> None:
        """Terminates replaced head nodes, which CloudFormation could not: head_node.termination_protection."""
        if self.status() not in ("UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"):
            return
        ours = stack.instance_ids(self.clients.cloudformation, self.name)
        for head in self.instances("head"):
            if head["InstanceId"] not in ours and head["State"]["Name"] != "shutting-down":
                self.tell(f"terminating {head['InstanceId']}, which is no longer the head node")
                self._unprotect(head["InstanceId"])
                self.clients.ec2.terminate_instances(InstanceIds=[head["InstanceId"]])

    def _unprotect(self, instance_id: str) -> None:
        self.clients.ec2.modify_instance_attribute(InstanceId=instance_id, DisableApiTermination={"Value": False})

    def _start_head(self) -> None:
        """It is stopped if an update failed after the new head node had taken its volume. Raises CloudError if EC2
        cannot start it."""
        if self.status() is None:
            return
        ours = stack.instance_ids(self.clients.cloudformation, self.name)
        heads = {each["InstanceId"]: each["State"]["Name"] for each in self.instances("head")}
        stopped = [instance_id for instance_id in ours if heads.get(instance_id) in ("stopping", "stopped")]
        if not stopped:
            return
        self.tell(f"starting the head node {' '.join(stopped)}, which is stopped")
        instance_states.wait(self.clients.ec2, stopped, "stopped")
        self.clients.ec2.start_instances(InstanceIds=stopped)
        instance_states.wait(self.clients.ec2, stopped, "running")

    def _replace_head(self, *, on_purpose: bool) -> Replacements | None:
        """Makes the deployment replace the head node, on purpose or because it was terminated. Returns the count if a
        failed deployment must restore it: a lost head node must be replaced in any case."""
        if self.role != "head" or not stack.has_cluster(self.status()):
            return None
        if lost := self.lost_heads():
            self.tell(f"the head node {' '.join(lost)} was terminated: creating another with the same volume")
        counted = self.replacements()
        counted.follow(one_more=on_purpose or bool(lost))
        return counted if on_purpose and not lost else None

    def replacements(self) -> Replacements:
        key = updates.replacements_key(self.name, account=self.account(), region=self.region)
        return Replacements(self.config_file, self.name, key, self.clients.cloudformation)

    def lost_heads(self) -> list[str]:
        """Head nodes of the stack that EC2 has terminated; EC2 soon forgets them."""
        ours = stack.instance_ids(self.clients.cloudformation, self.name)
        alive = {each["InstanceId"] for each in self.instances("head") if each["State"]["Name"] != "shutting-down"}
        return [instance_id for instance_id in ours if instance_id not in alive]

    def protected(self) -> bool:
        """Whether AWS refuses to delete the cluster: head_node.termination_protection."""
        return stack.protected(self.clients.cloudformation, self.name)

    def lift_protection(self) -> None:
        """Lifts the protection of the stack and of its resources."""
        self.tell(f"lifting the termination protection of {self.name}")
        self.clients.cloudformation.update_termination_protection(
            StackName=self.name, EnableTerminationProtection=False
        )
        for head in self.instances("head"):
            self._unprotect(head["InstanceId"])
        for database in stack.physical_ids(self.clients.cloudformation, self.name, "AWS::RDS::DBInstance"):
            self.clients.rds.modify_db_instance(
                DBInstanceIdentifier=database, DeletionProtection=False, ApplyImmediately=True
            )

    def let_finish(self) -> None:
        """Waits for an operation that an earlier run began: no other can begin before it ends."""
        if stack.in_progress(self.status()):
            self.tell(f"{self.name} is {self.status()}: waiting for it to finish")
            progress = Progress(self.tell, self._console, self.role)
            for event in stack.follow(self.clients.cloudformation, self.name):
                progress.happened(as_cdk_tells(event) if event else None)

    def _bootstrap(self, inherited: Mapping[str, str]) -> None:
        account, wanted = self.account(), bootstrapping.qualifier(self.config_file)
        where = f"account {account} in {self.region}"
        if not bootstrapping.is_needed(self.clients.cloudformation, self.clients.ssm, wanted, where):
            return
        self.tell(f"preparing account {account} for CDK, once (cdk bootstrap)")
        cdk.fetch(self.tell)
        command = cdk.argv(
            "bootstrap",
            f"aws://{account}/{self.region}",
            config_file=self.config_file,
            assembly=self._assembly,
        )
        env, cwd = self._environment(inherited), cdk.project(self.config_file)
        cdk.run(command, env, cwd=cwd, log=self.log)

    @property
    def _assembly(self) -> Path:
        return self.state_folder / f"{self.name}.cdk.out"

    def _run(
        self,
        verb: str,
        inherited: Mapping[str, str],
        *options: str,
        again: str,
        heard: Callable[[str], None] = lambda line: None,
    ) -> list[str]:
        """Runs the CDK command line and returns its output. Raises DeployError with CloudFormation's reason. `again`:
        the verb of gpucluster that tries again. `heard`: gets each line; if it raises an exception, CDK is ended."""
        everything = (*options, *self.options)
        cdk.fetch(self.tell)
        command = cdk.argv(verb, self.name, *everything, config_file=self.config_file, assembly=self._assembly)
        progress = Progress(self.tell, self._console, self.role)
        env, cwd = self._environment(inherited), cdk.project(self.config_file)
        with cdk.Run(command, env, cwd=cwd, log=self.log, inherited=self._turn.inherited) as process:
            self._turn.says(f"`gpucluster {again}` with the CDK command line (process {process.process_id})")
            for line in with_heartbeat(process.lines(), HEARTBEAT_S):
                heard(line or "")
                progress.heard(line)
            if process.exit_code() != 0:
                raise self._failed(verb, progress, again)
        return progress.said

    def _environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """With the account: otherwise the app would make placeholders if the CDK command line did not find it."""
        return cdk.environment({**self.aws(), "CDK_DEFAULT_ACCOUNT": self.account()}, inherited)

    def _failed(self, verb: str, progress: Progress, again: str) -> DeployError:
        """CloudFormation's events have the reason if CDK has begun an operation; else they are of an earlier one."""
        if refused := next(filter(None, map(OVERTAKEN.search, progress.said)), None):
            return self._overtaken(refused[0])
        began = progress.began and self.status()
        failure = stack.first_failure(self.clients.cloudformation, self.name) if began else None
        reason = describe(failure, self.role) if failure else cdk_failure.reason(progress.said)
        if verb == "destroy" and self.status() and (others := self.in_the_way()):
            reason = f"{reason}; in the way: {'; '.join(others)}"
        again = "image build" if self.role == "image" else again
        hint = f"cdk's output is in {self.log}; `gpucluster {again}` tries again"
        return DeployError(f"{self.name}: {verb} failed: {reason}", hint)

    def instances(self, role: str) -> list[dict[str, Any]]:
        """The cluster's instances that are not terminated. `role`: head, compute or image."""
        states = tagged_instances.NOT_TERMINATED
        return tagged_instances.find(self.clients.ec2, states, cluster=self.name, role=role)

    def _budget_stop(self) -> BudgetStop:
        clients = self.clients
        return BudgetStop(self.name, clients.cloudformation, clients.iam, clients.budgets, clients.sts, tell=self.tell)

    def _console(self) -> str:
        """The console output of the head node, or of the one that replaces it; empty until there is one."""
        heads = self.instances(self.role)
        if not heads:
            return ""
        newest = max(heads, key=lambda head: head["LaunchTime"])
        output = self.clients.ec2.get_console_output(InstanceId=newest["InstanceId"], Latest=True)
        return str(output.get("Output", ""))


def _live_node(instance: dict[str, Any]) -> updates.LiveNode:
    partition = tagged_instances.tags_of(instance).get("gpucluster:partition", "")
    number = (tagged_instances.node_of(instance) or "").rpartition("-")[2]
    return partition, int(number) if number.isdecimal() else None
