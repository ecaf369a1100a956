"""Who may talk to the server, and who may not."""

import re
from urllib.parse import urlencode

import pytest
from asgi import Browser, request

from osgt.web.app import Web
from osgt.web.gate import LARGEST_BODY, MOST_FIELDS

PORT = 8123
HOST = f"127.0.0.1:{PORT}"


@pytest.fixture
def web():
    return Web(PORT, {})


@pytest.fixture
def browser(web):
    return Browser(web, PORT)


class TestLink:
    def test_lets_a_browser_in_once(self, web):
        path, _, query = web.gate.link.partition("?")
        first, second = (request(web.gate, "GET", path, query=query, headers=[("Host", HOST)]) for _ in range(2))
        assert first.status == 200
        cookie = first.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert f"path={web.gate.root}".lower() in cookie
        assert second.status == 403
        assert "set-cookie" not in second.headers

    def test_the_next_one_is_told(self):
        told = []
        web = Web(PORT, {}, told.append)
        Browser(web, PORT)
        assert told == [web.gate.link]
        Browser(web, PORT)  # works with the new one
        assert len(set(told)) == 2

    def test_of_another_start_is_refused(self, web):
        other = Web(PORT, {})
        query = other.gate.link.partition("?")[2]
        assert request(web.gate, "GET", "/", query=query, headers=[("Host", HOST)]).status == 403

    def test_the_link_is_not_in_any_page(self, web, browser):
        for path in ("/", "/help", "/script.js"):
            assert re.search(r"token=\w{20}", browser.get(path).text) is None


class TestRefused:
    @pytest.mark.parametrize(
        "host",
        ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", "[::1]:8123", "", f"{HOST}.evil.example"],
    )
    def test_another_host(self, web, browser, host):
        headers = [("Host", host), ("Cookie", browser.cookie)]
        assert request(web.gate, "GET", f"{web.gate.root}/", headers=headers).status == 403

    def test_no_host_and_two_hosts(self, web, browser):
        cookie = ("Cookie", browser.cookie)
        assert request(web.gate, "GET", f"{web.gate.root}/", headers=[cookie]).status == 403
        assert (
            request(web.gate, "GET", f"{web.gate.root}/", headers=[("Host", HOST), ("Host", HOST), cookie]).status
            == 403
        )

    @pytest.mark.parametrize(
        "path", ["/", "/help", "/style.css", "/script.js", "/jobs/x", "/jobs/x/files/0", "/nothing"]
    )
    def test_whoever_has_no_cookie(self, web, path):
        assert request(web.gate, "GET", path, headers=[("Host", HOST)]).status == 403
        assert request(web.gate, "GET", web.gate.root + path, headers=[("Host", HOST)]).status == 403

    @pytest.mark.parametrize("root", ["", "/x", "//", "/{}x", "/{}/.."])
    def test_whoever_does_not_know_the_path(self, web, browser, root):
        """Browsers send no cookie there, and it would not help."""
        path = f"{root.format(web.gate.root[1:])}/help".replace("/..", "/../x")
        answer = request(web.gate, "GET", path, headers=[("Host", HOST), ("Cookie", browser.cookie)])
        assert answer.status in (403, 404)
        assert answer.status == 403 or path.startswith(f"{web.gate.root}/")

    def test_a_link_with_too_much_in_it(self, web):
        for query in ("&".join(["a=1"] * 99), "token=%ff", "token", "token=" + "x" * 9999):
            assert request(web.gate, "GET", "/", query=query, headers=[("Host", HOST)]).status == 403

    @pytest.mark.parametrize("cookie", ["", "osgt-8123=", "osgt-8123=x", "osgt-8124={}", "other={}"])
    def test_a_wrong_cookie(self, web, browser, cookie):
        value = browser.cookie.partition("=")[2]
        headers = [("Host", HOST), ("Cookie", cookie.format(value))]
        assert request(web.gate, "GET", f"{web.gate.root}/", headers=headers).status == 403

    def test_cookies_of_other_servers_do_no_harm(self, web, browser):
        headers = [("Host", HOST), ("Cookie", f'odd="; a=b=c; ,@[]; {browser.cookie}; last')]
        assert request(web.gate, "GET", f"{web.gate.root}/", headers=headers).status == 200

    @pytest.mark.parametrize(
        "origin",
        [None, "null", "http://evil.example", "http://127.0.0.1:1", f"https://{HOST}", f"http://localhost:{PORT}"],
    )
    @pytest.mark.parametrize("path", ["/", "/publish", "/ledger", "/query.toml"])
    def test_a_form_of_another_origin(self, browser, path, origin):
        assert browser.post(path, {}, Origin=origin).status == 403

    @pytest.mark.parametrize("token", ["", "x"])
    def test_a_forged_form(self, browser, token):
        assert browser.post("/publish", {}, token=token).status == 403

    def test_the_session_is_not_the_token(self, browser):
        assert browser.post("/", {}, token=browser.cookie.partition("=")[2]).status == 403

    @pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
    def test_other_methods(self, web, browser, method):
        headers = [("Host", HOST), ("Cookie", browser.cookie)]
        assert request(web.gate, method, f"{web.gate.root}/", headers=headers).status == 405

    def test_changes_by_get(self, browser):
        for path in ("/publish", "/ledger"):
            assert browser.get(path).status == 405


class TestBounded:
    def headers(self, browser):
        return [("Host", HOST), ("Cookie", browser.cookie), ("Origin", f"http://{HOST}")]

    @pytest.mark.parametrize("parts", [1, 7])
    def test_large_bodies_are_refused(self, web, browser, parts):
        body = b"a=" + b"x" * LARGEST_BODY
        answer = request(web.gate, "POST", f"{web.gate.root}/", headers=self.headers(browser), body=body, parts=parts)
        assert answer.status == 413

    def test_bodies_in_parts_are_read(self, web, browser):
        body = urlencode([("token", web.gate.form_token), ("report.title", "Tïtle")]).encode()
        answer = request(web.gate, "POST", f"{web.gate.root}/", headers=self.headers(browser), body=body, parts=5)
        assert answer.status == 200
        assert 'value="Tïtle"' in answer.text

    @pytest.mark.parametrize("body", [b"\xff", b"a=%ff", b"&".join(b"a=1" for _ in range(MOST_FIELDS + 1))])
    def test_what_is_no_form_is_refused(self, web, browser, body):
        assert request(web.gate, "POST", f"{web.gate.root}/", headers=self.headers(browser), body=body).status == 400


class TestHeaders:
    @pytest.mark.parametrize("path", ["/", "/help", "/style.css", "/nothing"])
    def test_every_answer_is_locked_down(self, browser, path):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"

    def test_refusals_too(self, web):
        answer = request(web.gate, "GET", "/", headers=[("Host", HOST)])
        assert "default-src 'none'" in answer.headers["content-security-policy"]
