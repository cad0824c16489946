"""What was said in a call of an agent, in the shapes in which frameworks give it. Pure.

A result is `{"response": text}`, or `{"messages": [...]}` with one object a message; a text is a
string or a list of parts, of which those of type `text` count.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

# Who speaks: the word of most interfaces, and that of LangChain.
_USER: Final = frozenset({"user", "human"})
_ASSISTANT: Final = frozenset({"assistant", "ai"})


def extract_call_response(result: Mapping[str, Any]) -> str:
    """Return the last visible words of the agent in a call; "" where it said none.

    Only what came after the last message of a user counts: a conversation that goes on is given
    whole, and an old answer is no answer.
    """
    response = result.get("response")
    if isinstance(response, str):
        return response.strip()
    for message in reversed(_messages(result.get("messages"))):
        if _speaker(message) in _USER:
            break
        if _speaker(message) in _ASSISTANT and (text := _text(message.get("content"))):
            return text
    return ""


def first_user_text(messages: Sequence[Any]) -> str:
    """Return what the user said first, "" where no user said anything."""
    texts = (_text(m.get("content")) for m in _messages(messages) if _speaker(m) in _USER)
    return next((text for text in texts if text), "")


def last_user_index(messages: Sequence[Any]) -> int:
    """Return where the last message of a user stands; behind all of them if there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], Mapping) and _speaker(messages[index]) in _USER:
            return index
    return len(messages)


def _messages(value: Any) -> list[Mapping[str, Any]]:
    return [m for m in value if isinstance(m, Mapping)] if isinstance(value, list | tuple) else []


def _speaker(message: Mapping[str, Any]) -> str:
    return str(message.get("role") or message.get("type") or "")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, list | tuple):
        return ""
    parts = [part if isinstance(part, str) else _part(part) for part in content]
    return "".join(parts).strip()


def _part(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
    return text if isinstance(text, str) else ""
