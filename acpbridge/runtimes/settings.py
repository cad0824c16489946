"""Brings an agent's session to the model and options that were chosen, and holds it to them.

What is chosen is checked against what the agent offers before anything is sent; what was sent is
checked against what the agent then says. The mode is the session's own business, and comes last.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import anyio

from acpbridge.controller.chosen import MODE_WAIT, Chosen
from acpbridge.errors import BridgeError
from acpbridge.model.settings import Settings, Value
from acpbridge.protocol import acp, options

# An agent may ask its vendor whether there is such a model. Seconds.
SETTING_WAIT: Final = 15.0

# Under this name the mode of agents is set that offer modes and no option for them.
MODE: Final = "mode"

# The ids under which agents have the option for how much they think, in the order of trying.
THINKING: Final = ("thinking", "effort", "reasoning_effort", "thought_level")

# Refuses a value that would have nobody asked.
Guard = Callable[[str], None]


def resolved(chosen: Chosen, layer: Settings) -> Settings:
    """Return a layer by the agent's own ids, with its model and mode taken out of the options.

    What is not offered keeps its name: a model may bring options of its own.
    """
    offered = options.options_of(chosen.session)
    model = options.model_option(offered)
    mode = acp.mode_option_id(chosen.session) or MODE
    out = Settings(layer.model, layer.mode)
    for name, value in _with_thinking(offered, layer).items():
        option = options.find(offered, name)
        key = name if option is None else option.id
        if key == mode and acp.offered_modes(chosen.session):
            out = replace(out, mode=str(value))
        elif model is not None and key == model.id:
            out = replace(out, model=str(value))
        else:
            out = replace(out, options={**out.options, key: value})
    return _offered_of(chosen, out) if layer.lenient else out


def _with_thinking(offered: tuple[options.Option, ...], layer: Settings) -> dict[str, Value]:
    """Return a layer's options, how much it is to think among them."""
    if layer.thinking is None:
        return dict(layer.options)
    ids = {option.id for option in offered}
    name = next((name for name in THINKING if name in ids), THINKING[0])
    return {**layer.options, name: layer.thinking}


def _offered_of(chosen: Chosen, layer: Settings) -> Settings:
    """Return what of a lenient layer the agent offers: nobody asked for it by name."""
    offered = options.options_of(chosen.session)
    model = options.model_option(offered)
    models = options.models_of(chosen.session)
    choices = model.choices if model is not None else None if models is None else models[1]
    kept: dict[str, Value] = {}
    for name, value in layer.options.items():
        option = options.find(offered, name)
        if option is not None and _has(option.choices, value):
            kept[name] = value
    wanted = layer.model if layer.model and _has(choices or (), layer.model) else None
    return replace(layer, model=wanted, options=kept)


def _has(choices: tuple[options.Choice, ...] | None, value: Value) -> bool:
    return choices is not None and any(value in (c.value, c.name) for c in choices)


async def apply(chosen: Chosen, layers: Sequence[Settings], guard: Guard) -> tuple[Settings, ...]:
    """Set the model and the options of all layers, the last one above; return them resolved.

    Raises:
        BridgeError: `unsupported_control`, `invalid_params`, `bypass_refused`, or what the agent
            answered.
    """
    layers = tuple(resolved(chosen, layer) for layer in layers)
    wanted = Settings()
    for layer in layers:
        wanted = wanted.merged(layer)
    # All that can be wrong now is found before anything is changed.
    for name, value in wanted.options.items():
        _planned(chosen, guard, name, value, missing_ok=wanted.model is not None)
    if wanted.model is not None:
        await _set_model(chosen, guard, wanted.model)
    for name, value in wanted.options.items():
        option = _planned(chosen, guard, name, value)
        assert option is not None
        await _set_option(chosen, option, option.value_for(value))
    return layers


def _planned(
    chosen: Chosen,
    guard: Guard,
    name: str,
    value: Value,
    *,
    missing_ok: bool = False,
) -> options.Option | None:
    """Return the option of a name, once the value is known to be one that it may have."""
    offered = options.options_of(chosen.session)
    option = options.find(offered, name)
    if option is None:
        if missing_ok:
            return None
        raise options.unknown(offered, name)
    meant = option.value_for(value)
    if isinstance(meant, str):
        guard(meant)
        for choice in option.choices or ():
            if choice.value == meant:
                guard(choice.name)  # some call their values by numbers
    if meant is not False:
        # A switch says by its name what it does.
        guard(option.id)
        guard(option.name)
    return option


async def _set_model(chosen: Chosen, guard: Guard, wanted: str) -> None:
    option = options.model_option(options.options_of(chosen.session))
    if option is not None and option.choices is not None:
        value = options.choose(option.choices, wanted, "The model")
        guard(value)
        await _set_option(chosen, option, value)
        return
    models = options.models_of(chosen.session)
    if models is None:
        message = "The agent lets its client choose no model: it offers no option of that category."
        hint = "Leave --model out; choose the model in the agent's own configuration."
        raise BridgeError("unsupported_control", message, hint=hint)
    current, offered = models
    # An agent may run a model that it does not list.
    value = wanted if wanted == current else options.choose(offered, wanted, "The model")
    guard(value)
    if value != current:
        await _sent("the model", partial(chosen.set_model, value))


async def _set_option(chosen: Chosen, option: options.Option, value: Value) -> None:
    if option.current == value:
        return
    what = f"the option {option.id!r}"
    await _sent(what, partial(chosen.set_config_option, option.id, value))
    with anyio.move_on_after(MODE_WAIT) as limit:
        while _now(chosen, option.id) != value:
            await chosen.options_changed()
    if limit.cancelled_caught:
        message = f"The agent did not set {what}: it is {_now(chosen, option.id)!r}."
        raise BridgeError("unsupported_control", message)


async def _sent(what: str, send: Callable[[], Awaitable[Any]]) -> None:
    """Send a change, and name what was to be changed when it is refused or not answered."""
    try:
        with anyio.fail_after(SETTING_WAIT):
            await send()
    except TimeoutError:
        message = f"The agent did not answer in {SETTING_WAIT:g} s when {what} was set."
        raise BridgeError("unsupported_control", message) from None
    except BridgeError as error:
        if error.code in ("agent_died", "auth_required"):
            raise
        message = f"The agent refused to set {what}: {error.message}"
        raise BridgeError("unsupported_control", message, data=error.data) from None


def _now(chosen: Chosen, name: str) -> Value | None:
    offered = options.options_of(chosen.session)
    return next((option.current for option in offered if option.id == name), None)
