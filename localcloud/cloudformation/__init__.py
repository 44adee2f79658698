"""CloudFormation for the local cloud: templates become calls to the AWS APIs that it serves.

template, intrinsics, parameters and graph turn a template into resolved properties in dependency
order; plan says what an update would change; engine carries it out with the handlers in
resources/, one per resource type; api speaks the Query protocol, waits answers wait handles.
"""
