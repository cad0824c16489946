"""`agent_list` and `ask_agent`, for an agent of the house whose program has a team.

No agent has them by itself: whoever owns the team takes them from it, and hands them to the agents
that may ask others. Who asks, for whom and in which conversation is read from the configuration of
the run; nothing of it is taken from the model's arguments. Below is `router.teams`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.router.teams import Teams

Config = Callable[[], Mapping[str, Any]]
"""Returns the configuration of the run that goes on: `agent_id`, `user_id`, `thread_id`; where it
is known also `chain`, the agents that wait for one another, and `original_user_prompt`."""

BACKGROUND: Final = "background"
SYNC: Final = "sync"

_ASK_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "agent_id": {"type": "string", "description": "Id of the agent, from agent_list."},
        "message": {
            "type": "string",
            "description": "The whole task: the other agent sees nothing of this conversation.",
        },
        "mode": {
            "type": "string",
            "enum": [SYNC, BACKGROUND],
            "default": SYNC,
            "description": "sync waits for the answer. background returns a job_id at once; the "
            "answer comes to this conversation by itself: do not ask for it again.",
        },
    },
    "required": ["agent_id", "message"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class TeamTool:
    """One tool.

    Attributes:
        name: as a model calls it.
        description: when to use it, and what comes back.
        schema: of its arguments, JSON Schema.
        call: serves one call; raises BridgeError.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    call: Callable[[Mapping[str, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Context:
    """Who asks, for whom, and in which conversation."""

    agent_id: str
    user_id: str | int
    thread_id: str
    chain: tuple[str, ...] = ()
    original_user_prompt: str | None = None

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "Context":
        """Return what the configuration of a run says; nothing that is missing is guessed.

        Raises:
            BridgeError: `invalid_params`, naming what is missing or wrong.
        """
        for name in ("agent_id", "user_id", "thread_id"):
            value = config.get(name)
            kinds = (str, int) if name == "user_id" else (str,)
            if isinstance(value, bool) or not isinstance(value, kinds) or value == "":
                message = f"The configuration of this run has no usable {name}."
                hint = f"Have whoever runs the agent put {name} into the run's configuration."
                raise BridgeError("invalid_params", message, hint=hint)
        chain, prompt = config.get("chain", ()), config.get("original_user_prompt")
        if not isinstance(chain, list | tuple) or not all(isinstance(one, str) for one in chain):
            raise BridgeError("invalid_params", "chain must be a list of agent ids.")
        if prompt is not None and not isinstance(prompt, str):
            raise BridgeError("invalid_params", "original_user_prompt must be a text.")
        user = config["user_id"]
        return cls(config["agent_id"], user, config["thread_id"], tuple(chain), prompt)


def team_tools(teams: Teams, config: Config) -> tuple[TeamTool, ...]:
    """Return the tools of a team, for agents whose runs have this configuration."""

    async def listed(arguments: Mapping[str, Any]) -> list[dict[str, str]]:
        _only(arguments, ())
        own = Context.read(config()).agent_id
        agents = teams.agents()
        return [{"id": id, "description": agents[id]} for id in sorted(agents) if id != own]

    async def asked(arguments: Mapping[str, Any]) -> dict[str, Any]:
        _only(arguments, ("agent_id", "message", "mode"))
        return await _ask(teams, Context.read(config()), arguments)

    return (
        TeamTool(
            "agent_list",
            "Lists the other agents of this team, with what each is good for.",
            {"type": "object", "properties": {}, "additionalProperties": False},
            listed,
        ),
        TeamTool(
            "ask_agent",
            "Asks another agent of this team to do something and returns its answer. Use it for "
            "work that the other agent is better at.",
            _ASK_SCHEMA,
            asked,
        ),
    )


async def _ask(teams: Teams, context: Context, arguments: Mapping[str, Any]) -> dict[str, Any]:
    agent, message = _text(arguments, "agent_id"), _text(arguments, "message")
    # Without a team there is nobody to answer later: whatever was chosen, it is synchronous.
    mode = arguments.get("mode") if teams.team_enabled else None
    if mode not in (None, SYNC, BACKGROUND):
        raise BridgeError("invalid_params", f"mode must be {SYNC} or {BACKGROUND}.")
    if mode == BACKGROUND:
        job = teams.submit_peer(
            from_agent_id=context.agent_id,
            to_agent_id=agent,
            message=message,
            user_id=context.user_id,
            source_thread_id=context.thread_id,
            original_user_prompt=context.original_user_prompt,
        )
        note = "It works in the background. Its answer comes to this conversation by itself."
        return {"job_id": job, "status": "queued", "note": note}
    result = await teams.call_peer(
        from_agent_id=context.agent_id,
        to_agent_id=agent,
        message=message,
        user_id=context.user_id,
        chain=context.chain,
    )
    return {"agent_id": result.agent_id, "response": result.response}


def _only(arguments: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in arguments:
        if name not in known:
            there = ", ".join(known) or "none"
            raise BridgeError("invalid_params", f"There is no argument {name!r}; known: {there}.")


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BridgeError("invalid_params", f"{name} must be a text.")
    return value
