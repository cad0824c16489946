"""The host of an address, where it is beyond doubt. Pure.

Programs differ in how they read odd addresses, so one that is odd has no host here.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from acpbridge.permissions.rules.places import MOST_VALUES

# Addresses of the web are some hundred characters; programs refuse them beyond some thousand.
LONGEST_URL: Final = 8192
LONGEST_HOST: Final = 253

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_URL: Final = re.compile(r"(https?)://([^/?#]*)(?:[/?#].*)?", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_DEFAULT_PORT: Final = {"http": ":80", "https": ":443"}
_IPV4: Final = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}", re.ASCII)


def is_host(text: str) -> bool:
    """Tell whether a text is a plain host name or address, in lower case."""
    if len(text) > LONGEST_HOST or not _HOST.fullmatch(text):
        return False
    # `127.1`, `2130706433` and `0x7f.1` are addresses as well, for some programs.
    last = text.rpartition(".")[2]
    numeric = last.isdecimal() or last.startswith("0x")
    return not numeric or _IPV4.fullmatch(text) is not None


def host_of(url: str) -> str | None:
    """Return the host of an address, None if it is odd in any way."""
    found = _URL.fullmatch(url) if len(url) <= LONGEST_URL else None
    if found is None or not url.isascii() or not url.isprintable():
        return None
    if " " in url or "\\" in url:
        return None
    host = found[2].lower().removesuffix(_DEFAULT_PORT[found[1].lower()])
    return host if is_host(host) else None


def the_host(raw_input: Any) -> str | None:
    """Return the one host of every address in a tool's arguments; None without, or in doubt."""
    hosts: set[str | None] = set()
    waiting, seen = [raw_input], 0
    while waiting:
        seen += 1
        value = waiting.pop()
        if isinstance(value, str):
            if "://" in value or value.startswith("//") or _SCHEME.match(value):
                hosts.add(host_of(value))
        elif isinstance(value, Mapping):
            hosts.update(None for name in value if "://" in str(name))
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        if len(hosts) > 1 or seen > MOST_VALUES:
            return None
    return hosts.pop() if hosts else None
