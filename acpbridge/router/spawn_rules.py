"""What a spawn may not ask for, whoever asks: its parameters against one another. Pure.

Above is `spawn`; who may start which agent is told by `delegating`.
"""

from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.delegation import THINKING
from acpbridge.model.settings import Settings
from acpbridge.router.spawn_requests import LONGEST_RUN, SpawnRequest

SUBAGENT: Final = "subagent"
ACP: Final = "acp"

# What the parent is told with the receipt; each of them cost somebody a turn.
NOTE: Final = (
    "The child works by itself and its end is announced to you. Keep working; before you give your"
    " final answer wait for every completion that it needs. Do not poll: no status, history or"
    " sleep. A completion that comes after your final answer is answered with NO_REPLY."
)
UNATTENDED: Final = (
    "Nobody is at a terminal now: what the child asks waits in the inbox, and is denied when it"
    " waits for too long (limits.permissionSeconds)."
)
QUIET_NOTE: Final = "The child works by itself; nobody is told when it ends."


def check_session(request: SpawnRequest, *, has_session: bool) -> None:
    """Check what only a session can ask for."""
    if request.stream_to is not None and not has_session:
        message = 'streamTo "parent" needs a session that asks: there is nobody to tell.'
        raise BridgeError("requester_session_required", message)


def check_sandbox(request: SpawnRequest, runtime: str) -> None:
    """Check the sandbox: there is none, so nothing that must have one is started."""
    if request.sandbox != "require":
        return
    message = (
        "ACP sessions run outside the sandbox."
        if runtime == ACP
        else "A sub-agent runs outside a sandbox: acpbridge has none."
    )
    hint = 'Leave sandbox out, or give "inherit": what the child does is asked about all the same.'
    raise BridgeError("runtime_policy", message, hint=hint)


def check_mode(request: SpawnRequest, runtime: str, *, owned: bool) -> None:
    """Check mode and thread.

    Args:
        request: what is asked.
        runtime: of the child.
        owned: whether somebody is there who can speak to it again.
    """
    if request.mode != "session" or request.thread or (runtime == ACP and owned):
        return
    why = "no session asks that could send to it" if runtime == ACP else "it is a sub-agent"
    raise BridgeError("thread_required", f'mode "session" needs thread: true here; {why}.')


def check_thread(request: SpawnRequest) -> None:
    """Check the binding to a thread: no channel is there that could have one."""
    if request.thread:
        message = "thread: no channel can bind a thread here; the capability threads is missing."
        raise BridgeError("thread_binding_invalid", message)


def check_params(request: SpawnRequest, runtime: str) -> None:
    """Check what only one of the runtimes has, and that the numbers are in their range."""
    wrong = _only_subagent(request) if runtime == ACP else _only_acp(request)
    if wrong:
        other = SUBAGENT if runtime == ACP else ACP
        message = f"{wrong} goes with runtime {other!r} only; leave it out, or spawn such an agent."
        raise BridgeError("invalid_params", message)
    if request.completion_target and (request.thread or request.mode == "session"):
        message = "completionTarget goes with neither thread nor mode session; leave one out."
        raise BridgeError("invalid_params", message)
    if runtime == ACP and (request.run_timeout_seconds or 0) > LONGEST_RUN:
        message = f"runTimeoutSeconds: an ACP run may take {LONGEST_RUN} seconds at most."
        raise BridgeError("invalid_params", message)
    check_thinking(request.thinking)


def check_thinking(level: str) -> None:
    """Check a level of thinking."""
    if level and level not in THINKING:
        message = f"thinking: {level!r} is no level; there are {', '.join(THINKING)}."
        raise BridgeError("invalid_params", message, data={"offered": list(THINKING)})


def chosen(request: SpawnRequest) -> Settings:
    """Return what was asked for of the child's session by name: it must be had."""
    return Settings(request.model or None, thinking=request.thinking or None)


def note(request: SpawnRequest, *, told: bool) -> str:
    """Return what the parent should know; see `NOTE`."""
    return NOTE if told and request.expects_completion_message else QUIET_NOTE


def _only_subagent(request: SpawnRequest) -> str:
    named = {
        "completionTarget": request.completion_target is not None,
        'context "fork"': request.context == "fork",
        "lightContext": request.light_context,
        "attachAs": request.attach_as is not None,
    }
    return next((name for name, given in named.items() if given), "")


def _only_acp(request: SpawnRequest) -> str:
    named = {
        "resumeSessionId": bool(request.resume_session_id),
        "streamTo": request.stream_to is not None,
    }
    return next((name for name, given in named.items() if given), "")
