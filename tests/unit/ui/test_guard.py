"""Who may read the page."""

from __future__ import annotations

import pytest

from tests.served_page import Browser


def test_the_token_opens_one_browser(stranger: Browser) -> None:
    assert stranger.ask("/").status == 403
    assert stranger.ask("/?token=wrong").status == 403
    entered = stranger.enter()
    assert entered.status == 200 and 'content="0;url=/"' in entered.text
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    assert stranger.guard.token not in cookie
    assert stranger.ask("/").status == 200
    again = stranger.ask(f"/?token={stranger.guard.token}", cookie=None)
    assert (again.status, "used already" in again.text, "set-cookie" in again.headers) == (403, True, False)
    # a tab that is restored has the address and the cookie
    assert stranger.ask(f"/?token={stranger.guard.token}").status == 200


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/1", "/jobs/1/curves", "/beats", "/assets/page.js", "/nothing"])
def test_nothing_is_shown_without_the_cookie(stranger: Browser, path: str) -> None:
    answer = stranger.ask(path, cookie="gpucluster_0=forged; other=1")
    assert (answer.status, "vision" in answer.text, stranger.source.calls) == (403, False, 0)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "169.254.169.254", "", "[::"]
)
def test_a_foreign_name_that_means_loopback_is_refused(browser: Browser, host: str) -> None:
    assert browser.ask("/", host=host).status == 403


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:9000", "[::1]:9000"])
def test_another_port_of_ssh_is_accepted(browser: Browser, host: str) -> None:
    assert browser.ask("/", host=host).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000", "https://127.0.0.1"])
def test_a_page_of_another_origin_is_refused(browser: Browser, origin: str) -> None:
    assert browser.ask("/parts/cluster", origin=origin).status == 403


def test_a_page_of_another_port_may_link_here_but_not_read(browser: Browser) -> None:
    link = {"sec_fetch_site": "same-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert browser.ask("/", **link).status == 200
    assert browser.ask("/", **{**link, "sec_fetch_dest": "iframe"}).status == 403
    assert browser.ask("/parts/cluster", sec_fetch_site="same-site", sec_fetch_mode="no-cors").status == 403


def test_every_answer_has_the_policy(browser: Browser) -> None:
    for path in ("/", "/assets/page.js", "/nothing"):
        headers = browser.ask(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    assert browser.ask("/").headers["cache-control"] == "no-store"


def test_the_assets_have_no_way_out(browser: Browser) -> None:
    assert browser.ask("/assets/../app.py").status == 404
    assert browser.ask("/assets/%2e%2e/app.py").status == 404


def test_reading_only_is_the_default(browser: Browser) -> None:
    answer = browser.ask("/jobs/5000/cancel", {"form_key": browser.guard.form_key})
    assert (answer.status, "--write" in answer.text, browser.source.cancelled) == (403, True, [])
    assert "/cancel" not in browser.ask("/jobs/5000/parts/summary").text


def test_a_form_of_the_page_cancels_a_job(writer: Browser) -> None:
    assert f'value="{writer.guard.form_key}"' in writer.ask("/jobs/5000/parts/summary").text
    answer = writer.ask("/jobs/5000/cancel", {"form_key": writer.guard.form_key})
    assert (answer.status, answer.headers["location"], writer.source.cancelled) == (303, "/jobs/5000", ["5000"])


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        ({"form_key": "wrong"}, {}),
        ({}, {}),
        ({"form_key": "right"}, {"origin": None}),
        ({"form_key": "right"}, {"origin": "http://evil.example"}),
        ({"form_key": "right"}, {"sec_fetch_site": "same-site"}),
        ({"form_key": "right"}, {"cookie": None}),
    ],
)
def test_no_other_form_does(writer: Browser, form: dict[str, str], headers: dict[str, str | None]) -> None:
    given = {name: writer.guard.form_key if value == "right" else value for name, value in form.items()}
    assert writer.ask("/jobs/5000/cancel", given, **headers).status == 403
    assert writer.source.cancelled == []


def test_a_link_cancels_nothing(writer: Browser) -> None:
    assert writer.ask(f"/jobs/5000/cancel?form_key={writer.guard.form_key}").status == 405
    assert writer.source.cancelled == []


@pytest.mark.parametrize(
    "foreign", ['view={"x": 1, "y": [2]}', "path=/x", "flag", "two words=1", "[a]=1", "gr\u00fcn=1", 'token="2|1:0|xy"']
)
def test_cookies_of_other_servers_on_loopback_do_not_hide_ours(browser: Browser, foreign: str) -> None:
    """A port is no border for cookies, and browsers send what RFC 6265 does not allow."""
    sent = f"{foreign}; {browser.cookie}; {foreign}".encode().decode("latin-1")
    assert browser.ask("/", cookie=sent).status == 200
