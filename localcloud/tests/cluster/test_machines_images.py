"""Images of guests: every guest that boots from one has the written files and lacks the removed ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from localcloud.tests.guests import CLOUD_INIT_DONE, Guests, await_state, end, opened, spec

IMAGE, SECOND = "ami-0a0a0a0a0a0a0a0a0", "ami-0b0b0b0b0b0b0b0b0"


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guests]:
    with opened(tmp_path_factory.mktemp("wheels")) as guests:
        yield guests


def booted(guests: Guests, number: int, image_id: str) -> str:
    one = dataclasses.replace(spec(number, user_data=b"#!/bin/sh\necho run >>/root/runs\n"), image_id=image_id)
    guests.boot(one)
    guests.await_console(one.instance_id, CLOUD_INIT_DONE)
    return one.instance_id


def stopped(guests: Guests, instance_id: str) -> None:
    guests.hypervisor.stop(instance_id)
    await_state(guests, instance_id, "stopped")


def test_a_guest_of_an_image_has_the_written_files_and_lacks_the_removed_ones(guests: Guests) -> None:
    builder = booted(guests, 60, "ami-0")
    guests.run(builder, "echo baked >/opt/baked; rm -r /etc/issue /etc/skel; mkdir /etc/skel; touch /etc/skel/new")
    stopped(guests, builder)
    guests.hypervisor.create_image(builder, IMAGE)
    guests.hypervisor.terminate(builder)
    node = booted(guests, 61, IMAGE)
    seen = guests.run(node, "cat /opt/baked; ls -A /etc/skel; test -e /etc/issue || echo no issue; wc -l </root/runs")
    # The folder was removed, created again and filled, so it has no file of the layer below. User data runs, because
    # this is another instance.
    assert seen.splitlines() == ["baked", "new", "no issue", "2"]
    guests.run(node, "echo second >/opt/second; rm /opt/baked")
    stopped(guests, node)
    guests.hypervisor.create_image(node, SECOND)
    guests.hypervisor.delete_image(IMAGE)  # a disk and an image made from it still need it
    grandchild = booted(guests, 62, SECOND)
    assert guests.run(grandchild, "cat /opt/second; ls /opt/baked 2>/dev/null || echo gone") == "second\ngone\n"
    other = booted(guests, 63, "ami-0")
    assert "no" in guests.run(other, "test -e /opt/second || echo no")
    for instance_id in (node, grandchild, other):
        end(guests, instance_id, hard=True)
    guests.hypervisor.delete_image(SECOND)
    assert list((guests.state_dir / "images").iterdir()) == []
