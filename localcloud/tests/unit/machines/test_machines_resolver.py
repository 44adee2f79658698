"""DNS answers, from wire to wire, without a socket."""

from __future__ import annotations

from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import pytest

from localcloud.machines.networks import resolver

ZONE = {
    ("head.zone.internal", "A"): ["10.0.1.10"],
    ("alias.zone.internal", "CNAME"): ["head.zone.internal."],
    ("loop.zone.internal", "CNAME"): ["loop.zone.internal."],
    ("text.zone.internal", "TXT"): ['say "hi" twice'],
    ("many.zone.internal", "A"): [f"10.0.{number // 250}.{number % 250}" for number in range(200)],
}


def resolve(name: str, record_type: str) -> list[str] | None:
    return ZONE.get((name, record_type), []) if name.endswith(".zone.internal") else None


def ask(name: str, record_type: str = "A", *, tcp: bool = False) -> dns.message.Message:
    wire = dns.message.make_query(name, record_type).to_wire()
    reply = resolver.answer(wire, resolve, lambda asked, _: resolver.failure(asked), tcp=tcp)
    assert reply is not None
    return dns.message.from_wire(reply)


@pytest.mark.parametrize(
    ("name", "record_type", "texts"),
    [
        ("head.zone.internal", "A", ["10.0.1.10"]),
        ("HEAD.Zone.Internal", "A", ["10.0.1.10"]),
        ("head.zone.internal", "AAAA", []),
        ("absent.zone.internal", "A", []),
        ("alias.zone.internal", "A", ["head.zone.internal.", "10.0.1.10"]),
        ("alias.zone.internal", "CNAME", ["head.zone.internal."]),
        ("text.zone.internal", "TXT", ['"say \\"hi\\" twice"']),
    ],
)
def test_own_names(name: str, record_type: str, texts: list[str]) -> None:
    reply = ask(name, record_type)
    assert reply.rcode() == dns.rcode.NOERROR
    assert [record.to_text() for rrset in reply.answer for record in rrset] == texts


def test_alias_that_points_at_itself_ends() -> None:
    assert len(ask("loop.zone.internal").answer) > 0


def test_other_names_go_upstream() -> None:
    assert ask("example.org").rcode() == dns.rcode.SERVFAIL


def test_large_answer_is_cut_over_udp_and_whole_over_tcp() -> None:
    assert ask("many.zone.internal").flags & dns.flags.TC
    assert len(ask("many.zone.internal", tcp=True).answer[0]) == 200


@pytest.mark.parametrize("wire", [b"", b"\0", b"\0" * 12])
def test_other_messages_than_queries_get_no_answer(wire: bytes) -> None:
    assert resolver.answer(wire, resolve, lambda asked, _: asked) is None


def test_nameservers_are_the_hosts_ipv4_ones(tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text("# nameserver 1.1.1.1\nsearch x\nnameserver fd00::1\nnameserver 192.0.2.53\n")
    assert resolver.host_nameservers(conf) == ["192.0.2.53"]
