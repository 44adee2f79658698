from __future__ import annotations

from validator_cases.case import Case, Keys, cluster

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBfFA3ASR2KHyUUHcTg0ePpNkTdBD9+0ckvAPhhtnng ada@laptop"


def users(*entries: Keys, **keys: object) -> Keys:
    return cluster(users=list(entries), **keys)


def ada(**keys: object) -> Keys:
    return users({"name": "ada", **keys})


CASES: dict[str, Case | list[Case]] = {
    "user-name-form": Case(
        fails=users({"name": "Ada Lovelace"}),
        key="users[0].name",
        says="must be lower-case letters, digits, hyphens and underscores, starting with a letter, "
        "at most 32 characters, got 'Ada Lovelace'",
        passes=users({"name": "ada-lovelace_2"}),
    ),
    "user-name-free": Case(
        fails=users({"name": "slurm"}),
        key="users[0].name",
        says="'slurm' is an account or a group of the system",
        passes=ada(),
    ),
    "user-name-unique": Case(
        fails=users({"name": "ada"}, {"name": "ada"}),
        key="users[1].name",
        says="'ada' is already the name of users[0]",
        passes=users({"name": "ada"}, {"name": "ben"}),
    ),
    "user-uid-unique": Case(
        fails=users({"name": "ada", "uid": 2000}, {"name": "ben", "uid": 2000}),
        key="users[1]",
        says="'ben' has the uid 2000 of 'ada'",
        passes=users({"name": "ada", "uid": 2000}, {"name": "ben"}),
    ),
    "user-uid-range": Case(
        fails=ada(uid=1000), key="users[0].uid", says="must be at least 1001, got 1000", passes=ada(uid=1001)
    ),
    "user-public-key-form": [
        Case(
            fails=ada(public_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA"),
            key="users[0].public_key",
            says="must be a public SSH key such as ssh-ed25519 AAAA…, got 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA'",
            passes=ada(public_key=KEY),
        ),
        Case(
            fails=ada(public_key="~/.ssh/id_ed25519.pub"),
            key="users[0].public_key",
            says="must be a public SSH key, got the path '~/.ssh/id_ed25519.pub'",
            passes=ada(public_key=KEY.rpartition(" ")[0]),
        ),
        Case(
            fails=ada(public_key="-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n"),
            key="users[0].public_key",
            says="is a private key, which must stay secret",
            passes=ada(public_key=KEY),
        ),
        Case(
            fails=ada(public_key=f"{KEY}\nssh-rsa AAAA"),
            key="users[0].public_key",
            says="must be one line, a public SSH key, got 2 lines",
            passes=ada(public_key=f"{KEY}\n"),
        ),
        Case(
            fails=ada(public_key=f"{KEY}\n{KEY}\n"),
            key="users[0].public_key",
            says="must be one public SSH key, got 2",
            passes=ada(public_key=f"\n{KEY}\r\n\n"),
        ),
        Case(
            fails=ada(public_key=f"{KEY[:30]}\n{KEY[30:]}\n"),
            key="users[0].public_key",
            says="must be one line, got a key that is broken into 2",
            passes=ada(public_key=f" {KEY}\t"),
        ),
        Case(
            fails=ada(public_key="---- BEGIN SSH2 PUBLIC KEY ----\nAAAAC3NzaC1lZDI1NTE5AAAA\n"),
            key="users[0].public_key",
            says="must be a line as in a .pub file of OpenSSH, got '---- BEGIN SSH2 PUBLIC KEY ----'",
            passes=ada(public_key=KEY),
        ),
        Case(
            fails=ada(public_key=f'from="10.0.0.0/8" {KEY}'),
            key="users[0].public_key",
            says="must begin with the key's type, such as ssh-ed25519, "
            "got 'from=\"10.0.0.0/8\" ssh-ed25519 AAAAC3NzaC…'",
            passes=ada(public_key=KEY),
        ),
    ],
    "user-fair-share": Case(
        fails=ada(fair_share=0), key="users[0].fair_share", says="must be at least 1, got 0", passes=ada(fair_share=2)
    ),
    "user-max-jobs": Case(
        fails=ada(max_jobs=0), key="users[0].max_jobs", says="must be at least 1, got 0", passes=ada(max_jobs=1)
    ),
    "user-max-gpus": Case(
        fails=ada(max_gpus=0), key="users[0].max_gpus", says="must be at least 1, got 0", passes=ada(max_gpus=8)
    ),
    "users-need-accounting": Case(
        fails={**ada(), "accounting": "off"},
        key="accounting",
        says="'off', but users need accounting",
        passes={**ada(), "accounting": "local"},
    ),
}
