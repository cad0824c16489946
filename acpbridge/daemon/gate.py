"""The calls of the control socket in which a person has to do with permissions.

Above is the server, which says who calls; below is the router, which says whether they may.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from acpbridge.daemon.params import text, word, words
from acpbridge.errors import BridgeError
from acpbridge.model.permission import Effect
from acpbridge.model.requesters import Requester
from acpbridge.router.api import RouterApi

GateCall = Callable[[RouterApi, Requester, Mapping[str, Any]], Awaitable[dict[str, Any]]]

# Ids in one call: as many as there may be grants.
MOST_IDS: Final = 1024


async def questions(router: RouterApi, who: Requester, params: Mapping[str, Any]) -> dict[str, Any]:
    """Serve `questions`."""
    del params
    return {"permissions": await router.questions(who)}


async def answer(router: RouterApi, who: Requester, params: Mapping[str, Any]) -> dict[str, Any]:
    """Serve `answer`.

    Raises:
        BridgeError: `invalid_params` or `invalid_option`, and what `RouterApi.answer` raises.
    """
    option, effect = params.get("optionId"), params.get("effect")
    if option is not None and not isinstance(option, str):
        raise BridgeError("invalid_option", "optionId must be a string.")
    return await router.answer(
        text(params, "id"),
        who,
        option_id=option,
        effect=None if effect is None else word(Effect, effect, "effect"),
        note=text(params, "note", ""),
        confirm=None if params.get("confirm") is None else text(params, "confirm"),
    )


async def grants(router: RouterApi, who: Requester, params: Mapping[str, Any]) -> dict[str, Any]:
    """Serve `grants`."""
    del params
    return {"grants": await router.grants(who)}


async def revoke(router: RouterApi, who: Requester, params: Mapping[str, Any]) -> dict[str, Any]:
    """Serve `revoke`.

    Raises:
        BridgeError: `invalid_params`, and what `RouterApi.revoke` raises.
    """
    ids = words(params, "ids")
    if not ids or len(ids) > MOST_IDS:
        raise BridgeError("invalid_params", f"ids must be 1 to {MOST_IDS} ids of grants.")
    return {"revoked": await router.revoke(list(ids), who)}


CALLS: Final[Mapping[str, GateCall]] = {
    "questions": questions,
    "answer": answer,
    "grants": grants,
    "revoke": revoke,
}
