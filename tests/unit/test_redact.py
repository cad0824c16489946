"""Secrets taken out of text, of JSON and of streams."""

import hashlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge import redact
from acpbridge.redact import DEEPEST, TOO_DEEP, Redactor, StreamRedactor

# Built from parts, so that no scanner takes this file for a leak.
TOKENS = {
    "anthropic": "sk-" + "ant-api03-" + "Ab3_" * 12,
    "openai": "sk-" + "proj-" + "Ab3d" * 10,
    "github": "gh" + "p_" + "Ab3d" * 9,
    "aws": "AK" + "IA" + "ABCDEFGH01234567",
    "google": "AI" + "za" + "Ab-_5" * 7,
    "slack": "xo" + "xb-" + "1234567890-abcdef",
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "s1gn4ture-_x",
}
OTHERS = ["gh" + "o_" + "Ab3d" * 9, "git" + "hub_pat_" + "Ab3_" * 9, "xo" + "xp-" + "9876543210-z"]
KEY = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow+/\nIBAA==\n-----END RSA PRIVATE KEY-----"
PASSWORD = "correct horse"


def mark(kind: str, secret: str) -> str:
    return f"[redacted:{kind}:{hashlib.sha256(secret.encode()).hexdigest()[:6]}]"


@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_is_replaced_by_its_kind_and_hash(kind: str) -> None:
    token = TOKENS[kind]
    shown = Redactor().text(f"key={token}, next")
    assert shown == f"key={mark(kind, token)}, next"


@pytest.mark.parametrize("token", OTHERS)
def test_the_other_prefixes_are_known_too(token: str) -> None:
    assert token not in Redactor().text(f"({token})")


@pytest.mark.parametrize("kind", ["openai", "jwt"])
@pytest.mark.parametrize("colour", ["\x1b[1m", "\x1b[01;31m"])
def test_a_coloured_token_is_found(kind: str, colour: str) -> None:
    assert TOKENS[kind] not in Redactor().text(f"{colour}{TOKENS[kind]}\x1b[0m")


def test_words_that_only_look_like_tokens_stay() -> None:
    text = "task-management-of-many-things disk-usage-of-everything-here eyJ AKIA sk- xoxb-"
    assert Redactor().text(text) is text


def test_a_key_block_is_one_mark_in_any_listing() -> None:
    redactor = Redactor()
    assert redactor.text(f"a {KEY} b") == f"a {mark('pem', KEY)} b"
    for before in ("+", "-", "  12→", " 7|"):
        listing = "\n".join(before + line for line in KEY.splitlines())
        assert "MIIEow" not in redactor.text(listing)
        assert "IBAA" not in redactor.text(listing)
    assert "MIIEow" not in redactor.text(KEY[:50])


def test_an_authorization_header_loses_its_value() -> None:
    redactor = Redactor()
    for line in (
        "Authorization: Bearer opaque",
        "authorization:Basic b3BhcXVl opaque",
        "curl -H 'Authorization: opaque'",
        '{"Authorization": "Bearer opaque"}',
        "AUTHORIZATION: opaque",
        "Proxy-Authorization: opaque",
    ):
        shown = redactor.text(line + "\nnext")
        assert "opaque" not in shown
        assert shown.endswith("\nnext")


def test_the_user_of_an_address_is_redacted_and_git_is_not() -> None:
    redactor = Redactor()
    assert redactor.text("postgres://me:p@ss@db/x") == f"postgres://{mark('url', 'me:p@ss')}@db/x"
    for plain in ("ssh://git@github.com/a", "https://example.org/@user", "a@b.c"):
        assert redactor.text(plain) is plain


def test_known_values_are_learnt_by_the_name_of_their_variable() -> None:
    redactor = Redactor([("DB_PASS", PASSWORD), ("HOME", "/home/somebody"), ("API_KEY", "short")])
    assert redactor.text(f"<{PASSWORD}>") == f"<{mark('env', PASSWORD)}>"
    assert redactor.text("/home/somebody short") == "/home/somebody short"
    redactor.add("session_cookie", "  abcd1234\n")
    assert redactor.text("abcd1234") == mark("env", "abcd1234")


def test_overlapping_secrets_leave_no_half_behind() -> None:
    redactor = Redactor([("A_KEY", "abcdefgh"), ("B_KEY", "efghijkl")])
    assert redactor.text("abcdefghijkl") == mark("env", "abcdefghijkl")
    inner = Redactor([("A_KEY", TOKENS["anthropic"][10:20])])
    assert inner.text(TOKENS["anthropic"]) == mark("anthropic", TOKENS["anthropic"])


def test_a_tree_is_redacted_keys_included_and_stays_a_tree() -> None:
    redactor = Redactor([("MY_TOKEN", PASSWORD)])
    hidden = mark("env", PASSWORD)
    tree = {"a": [PASSWORD, 1, None, True], PASSWORD: {"b": "c"}}
    assert redactor.value(tree) == {"a": [hidden, 1, None, True], hidden: {"b": "c"}}


def test_a_tree_that_is_too_deep_is_cut() -> None:
    tree: Any = PASSWORD
    for _ in range(5000):
        tree = [tree]
    shown = Redactor().value(tree)
    for _ in range(DEEPEST):
        [shown] = shown
    assert shown == TOO_DEEP


def test_a_line_without_secrets_is_the_very_same_object() -> None:
    redactor = Redactor([("MY_TOKEN", PASSWORD)])
    for line in (b"", b'{"a": 1.50, "b":"task-\\u0041 https://a/b"}', b"\xff not json", b'"a\\/b"'):
        assert redactor.json_line(line) is line


def test_other_bytes_of_a_line_are_kept() -> None:
    line = b'{"n": 1.50, "a":"%b" ,"n":1e400, "z":"\\u00e9\\/"}'
    shown = Redactor([("MY_TOKEN", PASSWORD)]).json_line(line % PASSWORD.encode())
    assert shown == line % mark("env", PASSWORD).encode()


@pytest.mark.parametrize(
    "spelling",
    [
        '{"a":"correct\\u0020horse"}',
        '{"a":1,"a":"\\u0063orrect horse","a":2}',
        '{"correct horse":1}',
        '["\\u0063\\u006f\\u0072rect horse"]',
    ],
)
def test_an_escape_hides_nothing(spelling: str) -> None:
    shown = Redactor([("MY_TOKEN", PASSWORD)]).json_line(spelling.encode())
    assert mark("env", PASSWORD).encode() in shown
    json.loads(shown)


def test_a_value_that_json_spells_otherwise_is_found() -> None:
    for value in ('spe"ak\\back', "line\none\ttab", "schlüssel", "path/to/it"):
        redactor = Redactor([("MY_TOKEN", value)])
        for line in (json.dumps([value]), json.dumps([value], ensure_ascii=False)):
            for spelt in (line, line.replace("/", "\\/")):
                assert json.loads(redactor.json_line(spelt.encode())) == [mark("env", value)]


def test_a_number_that_is_a_secret_leaves_valid_json() -> None:
    redactor = Redactor([("PIN_SECRET", "12345678")])
    assert json.loads(redactor.json_line(b'{"pin":12345678,"n":[912345678]}')) == {
        "pin": mark("env", "12345678"),
        "n": ["9" + mark("env", "12345678")],
    }


def test_a_line_that_is_no_json_is_redacted_as_text() -> None:
    redactor = Redactor([("MY_TOKEN", PASSWORD)])
    for line in (b'{"a":"correct horse', b"\xffcorrect horse", b"x correct horse {", b'"\\x'):
        assert b"correct horse" not in redactor.json_line(line)
    deep = b"[" * 100_000 + b'"correct\\u0020horse"'
    assert PASSWORD.encode() not in redactor.json_line(deep)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from([*TOKENS.values(), KEY]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.just(PASSWORD), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON, st.booleans())
def test_g26_a_line_and_its_tree_are_redacted_alike(tree: Any, ascii_only: bool) -> None:
    redactor = Redactor([("MY_TOKEN", PASSWORD), ("X_KEY", 'a"\\\n/bcd')])
    line = json.dumps(tree, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert json.loads(redactor.json_line(line)) == redactor.value(tree)


@given(st.binary(max_size=200))
def test_any_bytes_are_taken(line: bytes) -> None:
    redactor = Redactor([("MY_TOKEN", PASSWORD)])
    assert PASSWORD.encode() not in redactor.json_line(line + PASSWORD.encode() + line)


SECRETS = [*TOKENS.values(), *OTHERS, KEY, PASSWORD, "two\nlines here"]


@given(
    st.lists(st.sampled_from([*SECRETS, "some words ", "\n", "Authorization: ", "x"]), max_size=8),
    st.data(),
)
def test_g26_a_secret_cut_by_a_border_is_found(parts: list[str], data: st.DataObject) -> None:
    redactor = Redactor([("MY_TOKEN", PASSWORD), ("L_KEY", "two\nlines here")])
    text = " ".join(parts)
    stream, shown, at = StreamRedactor(redactor), "", 0
    while at < len(text):
        size = data.draw(st.integers(1, 60))
        shown += stream.feed(text[at : at + size])
        at += size
    shown += stream.flush()
    assert not [secret for secret in SECRETS if secret in shown]
    assert shown == redactor.text(text)


def test_a_stream_holds_back_a_bounded_tail() -> None:
    stream, passed = StreamRedactor(Redactor()), 0
    for _ in range(1000):
        passed += len(stream.feed("x" * 100))
    assert 100_000 - passed <= 2 * StreamRedactor.BOUND
    for _ in range(1000):
        stream.feed("-----BEGIN X-----" + "A" * 100)
    assert len(stream.flush()) <= 3 * StreamRedactor.BOUND


@pytest.mark.parametrize(
    "piece",
    [
        *("eyJ", "sk-", "sk-ant-", "://", "://a:", "a://b@", "-----BEGIN ", "-----BEGIN A-----"),
        *("[1meyJ", "Authorization", "authorization: ", "\\u0041", '"', '\\"', "aaaaaaaa", "xoxb-"),
        *("eyJaaaaaaaaa.", "-----BEGIN A", "://" + "a" * 1000, "-", "A: ", "[", "{1,"),
    ],
)
def test_no_text_takes_more_than_linear_time(piece: str) -> None:
    redactor = Redactor([("MY_TOKEN", "aaaaaaaa")])
    line = (piece * 200_000)[:400_000].encode()
    started = time.process_time()
    redactor.json_line(line)
    redactor.text(line.decode())
    # A guard: linear takes under half a second, quadratic takes minutes.
    assert time.process_time() - started < 10


PARTS = (
    "sk-" + "a" * 30, " ", "\n", "ghp_" + "b" * 25, "://u:p@", "x" * 50, "MIIB" * 20, "\\", '"',
    "-----BEGIN RSA KEY-----", "-----END RSA KEY-----", "Authorization: abc", "AKIA" + "A" * 16,
    "eyJ" + "a" * 10 + "." + "b" * 12 + "." + "c" * 9, "correct horse battery",
)  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=40))
def test_where_the_windows_lie_makes_no_difference(parts: list[str]) -> None:
    """A long text is searched piece by piece: no secret across a border is missed (G26, G13).

    Without the second match in `_matches` half a key block is left in clear.
    """
    redactor, text = Redactor([("MY_TOKEN", "correct horse battery")]), "".join(parts)
    line = json.dumps({"text": text}).encode()
    whole = redactor.text(text), redactor.json_line(line)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(redact, "WINDOW", 64)
        patch.setattr(redact, "REACH", 900)
        assert (redactor.text(text), redactor.json_line(line)) == whole


def test_a_value_may_be_learnt_while_another_thread_looks_for_those_that_are_known() -> None:
    """The log redacts in worker threads: it died of a dictionary that changed meanwhile."""
    redactor = Redactor([("A_TOKEN", "first-value-1"), ("B_TOKEN", "second-value-2")])

    class Text(str):
        __slots__ = ()

        def __contains__(self, part: object) -> bool:
            redactor.add("C_TOKEN", f"third-value-{len(redactor.spans('x' * 9))}-{part}")
            return str.__contains__(self, part)  # type: ignore[operator]

    found = redactor.spans(Text("a first-value-1 and second-value-2"))
    assert [span.kind for span in found] == ["env", "env"]
