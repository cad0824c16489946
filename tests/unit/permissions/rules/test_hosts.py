"""The host of an address: only where every program would go to the same one."""

from typing import Any

import pytest

from acpbridge.permissions.rules.hosts import LONGEST_URL, host_of, is_host, the_host


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com/a?b#c", "example.com"),
        ("HTTPS://Example.COM", "example.com"),
        ("http://example.com:80/", "example.com"),
        ("https://example.com:443", "example.com"),
        ("https://127.0.0.1/x", "127.0.0.1"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
    ],
)
def test_a_plain_address_has_a_host(url: str, host: str) -> None:
    assert host_of(url) == host


ODD = [
    "https://user@example.com/", "https://example.com@evil.example/", "https://example.com:8443/",
    "http://example.com:443/", "https://example.com\\@evil.example", "https:/example.com",
    "//example.com", "ftp://example.com", "file:///etc/passwd", "https://bücher.example/",
    "https://exam\u200bple.com/", "https://2130706433/", "https://0x7f.1/", "https://127.1/",
    "https://0177.0.0.1/", "https://[::1]/", "https://example.com./", "https://exa mple.com/",
    "https://example.com/\n", "https://%65xample.com/", "https://example..com/", "https://",
    "https://-a.com/", "https://a_b.com/", "https://256.1.1.1/", "javascript:x", "example.com",
    "https://example.com/" + "a" * LONGEST_URL,
]  # fmt: skip


@pytest.mark.parametrize("url", ODD, ids=range(len(ODD)))
def test_an_odd_address_has_none(url: str) -> None:
    assert host_of(url) is None
    assert the_host({"url": url}) is None


@pytest.mark.parametrize(
    ("raw", "host"),
    [
        ({"url": "https://a.example/"}, "a.example"),
        ({"url": "https://a.example/", "prompt": "what does it say?"}, "a.example"),
        ({"urls": ["https://a.example/", "https://a.example/b"]}, "a.example"),
        ({"urls": ["https://a.example/", "https://b.example"]}, None),
        ({"url": "https://a.example/", "proxy": "http://user@p.example"}, None),
        ({"prompt": "fetch https://a.example/ and sum up"}, None),
        ({"https://a.example/": 1}, None),
        ({"url": "https://a.example/", "x": ["y"] * 20_000}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_call_has_a_host_if_all_its_addresses_have_one(raw: Any, host: str | None) -> None:
    assert the_host(raw) == host


def test_a_name_that_is_too_long_is_no_host() -> None:
    assert is_host("a.b")
    assert not is_host(".".join(["a" * 60] * 5))
