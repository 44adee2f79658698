from __future__ import annotations

from validator_cases.case import Case, Keys, cluster


def access(*entries: Keys) -> Keys:
    return cluster(s3_access=list(entries))


CASES: dict[str, Case | list[Case]] = {
    "s3-bucket-name": [
        Case(
            fails=access({"uri": "s3://my..bucket/a"}),
            key="s3_access[0].uri",
            says="no bucket can be called my..bucket: it has two dots in a row",
            passes=access({"uri": "s3://my.bucket/a"}),
        ),
        Case(
            fails=access({"uri": "s3://xn--bucket/a"}),
            key="s3_access[0].uri",
            says="no bucket can be called xn--bucket: it begins with xn--, which S3 reserves",
            passes=access({"uri": "s3://bucket-xn--/a".replace("--/", "/")}),
        ),
    ],
    "s3-prefix-length": Case(
        fails=access({"uri": "s3://bucket/" + "a" * 1024}),
        key="s3_access[0].uri",
        says="the prefix has 1025 bytes, and a whole key at most 1024",
        passes=access({"uri": "s3://bucket/" + "a" * 1000}),
    ),
    "s3-access-plain-prefix": [
        Case(
            fails=access({"uri": "s3://bucket/run-*"}),
            key="s3_access[0].uri",
            says="* is not a wildcard here: it matches only itself",
            passes=access({"uri": "s3://bucket/run-1"}),
        ),
        Case(
            fails=access({"uri": "s3://bucket/${aws:username}"}),
            key="s3_access[0].uri",
            says="$ is not a wildcard here: it matches only itself",
            passes=access({"uri": "s3://bucket/user"}),
        ),
    ],
    "s3-access-policy-size": Case(
        fails=access(*({"uri": f"s3://bucket/{number}"} for number in range(200))),
        key="s3_access",
        says="200 entries make a policy of about 13997 characters; AWS takes 10240",
        passes=access(*({"uri": f"s3://bucket/{number}"} for number in range(60))),
    ),
}
