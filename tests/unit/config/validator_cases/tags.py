from __future__ import annotations

from validator_cases.case import Case, Keys, cluster


def tagged(**tags: str) -> Keys:
    return cluster(tags=tags)


CASES: dict[str, Case | list[Case]] = {
    "tag-not-ours": [
        Case(
            fails=tagged(**{"AWS:team": "a"}),
            key="tags.AWS:team",
            says="AWS reserves keys that begin with aws:",
            passes=tagged(**{"team:aws": "a"}),
        ),
        Case(
            fails=tagged(**{"gpucluster:cluster": "other"}),
            key="tags.gpucluster:cluster",
            says="GpuCluster sets keys that begin with gpucluster:",
            passes=tagged(gpucluster="a"),
        ),
        Case(
            fails=tagged(Name="a"),
            key="tags.Name",
            says="GpuCluster sets Name itself: it tells nodes and disks apart",
            passes=tagged(Names="a"),
        ),
    ],
    "tag-form": [
        Case(
            fails=tagged(team="a;b;"),
            key="tags.team",
            says="the value must consist of letters, digits, spaces and _ . : / = + - @, got ';'",
            passes=tagged(team="Größe 4: a_b/c=d+e-f@g"),
        ),
        Case(
            fails=tagged(**{"te*m": "a"}),
            key="tags.te*m",
            says="the key must consist of letters, digits, spaces and _ . : / = + - @, got '*'",
            passes=tagged(**{"te m": "a"}),
        ),
        Case(
            fails=tagged(team=""),
            key="tags.team",
            says="the value must have 1 to 256 characters, got 0",
            passes=tagged(team="a" * 256),
        ),
        Case(
            fails=tagged(**{"k" * 129: "a"}),
            key=f"tags.{'k' * 129}",
            says="the key must have 1 to 128 characters, got 129",
            passes=tagged(**{"k" * 128: "a"}),
        ),
    ],
    "tag-keys-differ": Case(
        fails=tagged(team="a", Team="b"),
        key="tags.Team",
        says="team is the same key for IAM",
        passes=tagged(team="a", teams="a"),
    ),
    "tag-count": Case(
        fails=tagged(**{f"k{n}": "a" for n in range(41)}),
        key="tags",
        says="must be at most 40 tags, got 41",
        passes=tagged(**{f"k{n}": "a" for n in range(40)}),
    ),
}
