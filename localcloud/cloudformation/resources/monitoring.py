"""Logs, CloudWatch and SNS."""

from __future__ import annotations

from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    change_tags,
    dropped_tag_keys,
    only,
    resource,
    tag_list,
    tag_map,
    without,
)


@resource(
    "AWS::Logs::LogGroup",
    updatable="KmsKeyId RetentionInDays Tags DeletionProtectionEnabled",
    delete="logs delete_log_group logGroupName",
)
class LogGroup(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("LogGroupName") or call.name(512)
        given = only(properties, "KmsKeyId", "LogGroupClass")
        call.api("logs", "create_log_group", given, logGroupName=name, tags=tag_map(call, properties))
        call.announce(name)
        return self._configure(call, name, properties)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        if dropped := dropped_tag_keys(call, old, new):
            call.api("logs", "untag_log_group", logGroupName=physical_id, tags=dropped)
        if tags := tag_map(call, new):
            call.api("logs", "tag_log_group", logGroupName=physical_id, tags=tags)
        return self._configure(call, physical_id, new)

    def _configure(self, call: Call, name: str, properties: Properties) -> Made:
        days = properties.get("RetentionInDays")
        if days:
            call.api("logs", "put_retention_policy", logGroupName=name, retentionInDays=days)
        else:
            call.api("logs", "delete_retention_policy", logGroupName=name)
        return Made(name, {"Arn": f"arn:aws:logs:{call.region}:{call.account_id}:log-group:{name}:*"})


@resource("AWS::CloudWatch::Alarm", updatable="Tags", delete="cloudwatch delete_alarms AlarmNames")
class Alarm(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        return self._put(call, properties.get("AlarmName") or call.name(255), properties)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        made = self._put(call, physical_id, new)
        arn = made.attributes["Arn"]
        change_tags(call, "cloudwatch", "untag_resource", "tag_resource", old, new, ResourceARN=arn)
        return made

    def replaces(self, changed: set[str]) -> bool:
        return "AlarmName" in changed

    def _put(self, call: Call, name: str, properties: Properties) -> Made:
        given = without(properties, "AlarmName", "Tags")
        call.api("cloudwatch", "put_metric_alarm", given, AlarmName=name, Tags=tag_list(call, properties))
        return Made(name, {"Arn": f"arn:aws:cloudwatch:{call.region}:{call.account_id}:alarm:{name}"})


@resource(
    "AWS::CloudWatch::Dashboard",
    updatable="DashboardBody Tags",
    delete="cloudwatch delete_dashboards DashboardNames",
)
class Dashboard(Handler):
    """moto keeps no tags of dashboards."""

    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("DashboardName") or call.name(255)
        call.api("cloudwatch", "put_dashboard", DashboardName=name, DashboardBody=properties["DashboardBody"])
        return Made(name)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        call.api("cloudwatch", "put_dashboard", DashboardName=physical_id, DashboardBody=new["DashboardBody"])
        return Made(physical_id)


@resource("AWS::SNS::Topic", updatable="DisplayName KmsMasterKeyId Subscription Tags")
class Topic(Handler):
    _attributes = ("DisplayName", "KmsMasterKeyId")

    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("TopicName") or call.name(256)
        fifo = {"FifoTopic": "true"} if str(properties.get("FifoTopic", "")).lower() == "true" else {}
        given = {**fifo, **only(properties, *self._attributes)}
        arn = call.api("sns", "create_topic", Name=name, Attributes=given, Tags=tag_list(call, properties))["TopicArn"]
        call.announce(arn)
        self._subscribe(call, arn, {}, properties)
        return Made(arn, {"TopicArn": arn, "TopicName": name})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        for name in self._attributes:
            if old.get(name) != new.get(name):
                value = new.get(name, "")
                call.api("sns", "set_topic_attributes", TopicArn=physical_id, AttributeName=name, AttributeValue=value)
        self._subscribe(call, physical_id, old, new)
        return Made(physical_id, {"TopicArn": physical_id, "TopicName": physical_id.rsplit(":", 1)[-1]})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        found = call.api("sns", "list_subscriptions_by_topic", TopicArn=physical_id)["Subscriptions"]
        for subscription in found:
            call.api("sns", "unsubscribe", SubscriptionArn=subscription["SubscriptionArn"])
        call.api("sns", "delete_topic", TopicArn=physical_id)

    def _subscribe(self, call: Call, arn: str, old: Properties, new: Properties) -> None:
        for subscription in new.get("Subscription") or []:
            if subscription not in (old.get("Subscription") or []):
                call.api("sns", "subscribe", subscription, TopicArn=arn)


@resource(
    "AWS::SNS::Subscription",
    updatable="FilterPolicy RawMessageDelivery DeliveryPolicy RedrivePolicy",
    delete="sns unsubscribe SubscriptionArn",
)
class Subscription(Handler):
    _attributes = ("FilterPolicy", "RawMessageDelivery", "DeliveryPolicy", "RedrivePolicy")

    def create(self, call: Call, properties: Properties) -> Made:
        given = only(properties, "TopicArn", "Protocol", "Endpoint")
        attributes = only(properties, *self._attributes)
        arn = call.api("sns", "subscribe", given, Attributes=attributes, ReturnSubscriptionArn=True)["SubscriptionArn"]
        return Made(arn, {"Arn": arn})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        for name in self._attributes:
            if old.get(name) != new.get(name):
                given = {"AttributeName": name, "AttributeValue": new.get(name, "")}
                call.api("sns", "set_subscription_attributes", given, SubscriptionArn=physical_id)
        return Made(physical_id, {"Arn": physical_id})


@resource("AWS::SNS::TopicPolicy", updatable="PolicyDocument Topics")
class TopicPolicy(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        for arn in properties["Topics"]:
            given = {"AttributeName": "Policy", "AttributeValue": properties["PolicyDocument"]}
            call.api("sns", "set_topic_attributes", given, TopicArn=arn)
        return Made(call.name())

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        self.create(call, new)
        return Made(physical_id)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        """A topic's policy is deleted with its topic; AWS then restores the default one."""
