"""A child for whoever asks: guarded, accepted by the one way by which runs begin, never waited for.

Above is the router; below are `accepting`, which makes the session and puts the run on record, and
the rules: `spawn_rules` of parameters, `delegating` of agents.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio

from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import MAIN, AgentId, SessionKey, agent_id
from acpbridge.model.ports import Ids
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import Birth
from acpbridge.model.settings import Settings
from acpbridge.router import briefing, delegating, routes, workdir
from acpbridge.router import spawn_rules as rules
from acpbridge.router.accepting import Accepting
from acpbridge.router.api import RunReceipt, RunRequest
from acpbridge.router.attachments import File, Staging, decoded, inline, listed
from acpbridge.router.authorize import Action, Target, authorize
from acpbridge.router.claiming import EXTERNAL
from acpbridge.router.directory import Directory
from acpbridge.router.session import Session
from acpbridge.router.spawn_requests import SpawnRequest
from acpbridge.router.spawn_resume import check_resume

# What went wrong below is told as it is; all else did not let the child be put on record.
_TOLD = frozenset(
    {
        "acp_disabled",
        "agent_forbidden",
        "subagent_policy",
        "no_such_agent",
        "capacity",
        "busy",
        "permission_denied",
        "session_closed",
        "request_cancelled",
        "daemon_stopping",
        "dispatch_failed",
    }
)


class Spawning:
    """Starts children.

    Args:
        directory: the sessions that there are.
        accepting: accepts their runs.
        config: the configuration in force.
        ids: names what is new.
        staging: where files wait for Python agents.
        attended: at how many clients a person is asked what a session asks.
        relay: begins to show a session how a run is getting on.
    """

    def __init__(  # noqa: PLR0913 -- wired in one place, by name
        self,
        directory: Directory,
        accepting: Accepting,
        config: Callable[[], Config],
        *,
        ids: Ids,
        staging: Staging,
        attended: Callable[[SessionKey], int],
        relay: Callable[[RunReceipt, SessionKey], None],
    ) -> None:
        self._relay = relay
        self._directory = directory
        self._accepting = accepting
        self._config = config
        self._ids = ids
        self._staging = staging
        self._attended = attended

    async def spawn(self, request: SpawnRequest, requester: Requester) -> dict[str, Any]:
        """Start a child; return its receipt, without waiting for anything that it does.

        The guards stand in an order that is promised: of several reasons to refuse the first
        one is told, and none of them has changed anything.

        Raises:
            BridgeError: a code for each guard, and `invalid_params`.
        """
        authorize(Action.RUN, requester, Target())
        parent = self._directory.asking(requester)
        config = self._config()
        runtime = self._runtime(request, parent, config)
        if runtime == rules.ACP:
            delegating.check_enabled(config, RuntimeKind.ACP)
        rules.check_session(request, has_session=parent is not None)
        rules.check_sandbox(request, runtime)
        owned = parent is not None or requester.role is Role.OPERATOR
        rules.check_mode(request, runtime, owned=owned)
        target = self._target(request, runtime, parent, config)
        delegating.check_listed(config, target)
        if parent is not None:
            delegating.check(config, self._directory.asker(parent), target)
        resumed = None
        if request.resume_session_id and runtime == rules.ACP:
            resumed = check_resume(self._directory, request.resume_session_id, target.id, requester)
        rules.check_params(request, runtime)
        cwd = await self._cwd(request, target, parent, resumed)
        rules.check_thread(request)
        files = self._files(request, runtime)
        run = self._run(request, target, parent, cwd)
        receipt = await self._with_files(run, files, request, runtime, requester)
        if request.stream_to and parent is not None and not receipt.repeated:
            self._relay(receipt, parent.key)
        told = self._receipt(request, receipt, runtime, cwd, run.timeout, parent)
        return {**told, "attachments": listed(files)} if files else told

    # ---- Files ----

    def _files(self, request: SpawnRequest, runtime: str) -> tuple[File, ...]:
        if not request.attachments:
            return ()
        if not self._config().tools.sessions_spawn.attachments.enabled:
            message = "attachments are off (tools.sessionsSpawn.attachments.enabled)."
            hint = "Set it to true in config.yaml, or leave attachments out."
            raise BridgeError("invalid_params", message, hint=hint)
        return decoded(request.attachments, images_only=runtime == rules.ACP)

    async def _with_files(
        self,
        run: RunRequest,
        files: tuple[File, ...],
        request: SpawnRequest,
        runtime: str,
        requester: Requester,
    ) -> RunReceipt:
        """Accept a run with files: within its prompt, or staged for as long as it is wanted."""
        birth = run.birth
        if not files or birth is None or birth.unique is None:
            return await self._accept(run, requester)
        if runtime == rules.ACP:
            return await self._accept(
                replace(run, content=(*run.content, *inline(files))), requester
            )
        unique = birth.unique
        hint = "" if request.attach_as is None else request.attach_as.mount_path
        links = await self._staging.put(unique, files, hint)
        accepted = False
        try:
            with_files = replace(run, content=(*run.content, *links))
            receipt = await self._accept(with_files, requester)
            accepted = str(unique) in receipt.key.parts  # else it was accepted before
        finally:
            if accepted:
                self._staging.held.add(str(unique))
            else:
                with anyio.CancelScope(shield=True):
                    await self._staging.remove(unique)
        return receipt

    # ---- Whom ----

    def _runtime(self, request: SpawnRequest, parent: Session | None, config: Config) -> str:
        """Return the runtime; who names an agent need not know what it is."""
        if request.runtime is not None:
            return request.runtime
        if not request.agent_id:
            person = parent is None and config.acp.default_agent
            return rules.ACP if person else rules.SUBAGENT
        kind = self._kind(request.agent_id, config)
        return rules.ACP if kind is RuntimeKind.ACP else rules.SUBAGENT

    def _kind(self, name: str, config: Config) -> RuntimeKind:
        """Return the kind of an agent; of one that nobody knows, that which is refused by name."""
        try:
            return routes.find_agent(name, config).kind
        except BridgeError:
            return RuntimeKind.ACP

    def _target(
        self, request: SpawnRequest, runtime: str, parent: Session | None, config: Config
    ) -> AgentDefinition:
        own = MAIN if parent is None else parent.key.agent
        if not request.agent_id and delegating.delegation_of(config, own).require_agent_id:
            message = f"agentId is required of {own} (subagents.requireAgentId); name the agent."
            raise BridgeError("subagent_policy", message, hint="Give agentId.")
        if runtime == rules.ACP:
            return self._harness(request.agent_id or config.acp.default_agent or "", config)
        name = agent_id(request.agent_id) if request.agent_id else own
        if name != own and parent is None:
            # No list binds a person, who may have every agent started that `run` takes.
            target = routes.find_agent(name, config)
        else:
            target = self._listed(name, own, parent, config)
        if target.kind is not RuntimeKind.PYTHON:
            message = f"{name} is no Python agent: it speaks ACP."
            hint = f'Give runtime "acp" and agentId "{name}".'
            raise BridgeError("runtime_agent_mismatch", message, hint=hint)
        return target

    def _listed(
        self, name: AgentId, own: AgentId, parent: Session | None, config: Config
    ) -> AgentDefinition:
        """Return the asker's own agent, or one of the configuration."""
        if name == own:
            return self._own(own, parent, config)
        allowed = delegating.delegation_of(config, own).allow_agents
        delegating.check_configured(config, name, (own,) if allowed is None else allowed)
        return config.agents[name]

    def _harness(self, name: str, config: Config) -> AgentDefinition:
        if not name:
            message = "Nothing says which ACP agent is meant."
            raise BridgeError("target_agent_required", message)
        target = routes.find_agent(name, config)
        if target.kind is not RuntimeKind.ACP:
            message = f"{target.id} is no ACP agent: it is one in Python."
            hint = f'Give runtime "subagent" and agentId "{target.id}".'
            raise BridgeError("runtime_agent_mismatch", message, hint=hint)
        return target

    def _own(self, own: AgentId, parent: Session | None, config: Config) -> AgentDefinition:
        found = config.agents.get(own)
        if found is not None:
            return found
        # A client that the bridge does not run is of an agent that there need not be.
        if parent is not None and parent.record.runtime != EXTERNAL:
            return parent.definition
        hint = "Name it (--agent, agentId), or set acp.defaultAgent in config.yaml."
        raise BridgeError("target_agent_required", "Nothing says which agent is meant.", hint=hint)

    # ---- How ----

    async def _cwd(
        self,
        request: SpawnRequest,
        target: AgentDefinition,
        parent: Session | None,
        resumed: Session | None,
    ) -> str:
        if resumed is not None and not request.cwd:
            return resumed.record.cwd  # an agent finds its conversation where that was held
        inherited = [request.caller_cwd]
        if parent is not None:
            # A client that the bridge does not run works where it says.
            at = 1 if parent.record.runtime == EXTERNAL else 0
            inherited.insert(at, parent.record.cwd)
        return await workdir.resolve(request.cwd, target.workspace, tuple(inherited))

    def _run(
        self,
        request: SpawnRequest,
        target: AgentDefinition,
        parent: Session | None,
        cwd: str,
    ) -> RunRequest:
        unique = self._ids.uuid4()
        config = self._config()
        limit = request.run_timeout_seconds
        seconds = config.limits.run_timeout_seconds if limit is None else limit
        session = request.mode == "session"
        return RunRequest(
            content=self._content(request, target, parent, SessionKey.subagent(target.id, unique)),
            agent=str(target.id),
            cwd=cwd,
            env=request.env or ({} if parent is None else parent.env),
            one_shot=not session,
            timeout=float(seconds) if seconds else None,
            detached=True,
            idempotency_key=request.idempotency_key,
            settings=rules.chosen(request),
            wishes=self._wishes(target, parent),
            deliver_to=_who_hears(request, parent),
            provenance=_provenance(parent),
            task=request.task,
            birth=Birth(
                request.label,
                request.task_name,
                "keep" if session else request.cleanup,
                request.resume_session_id,
                unique,
            ),
        )

    def _content(
        self,
        request: SpawnRequest,
        target: AgentDefinition,
        parent: Session | None,
        key: SessionKey,
    ) -> tuple[dict[str, Any], ...]:
        """Return the first prompt: of an external agent the plain task, and nothing of ours."""
        if target.kind is RuntimeKind.ACP:
            return ({"type": "text", "text": request.task},)
        depth = 0 if parent is None else parent.record.lineage.depth + 1
        brief = briefing.Brief(
            depth=depth,
            most=self._config().limits.max_depth,
            key=str(key),
            label=request.label,
            requester="" if parent is None else str(parent.key),
            announced=parent is not None and request.expects_completion_message,
            private=request.completion_target == "parent",
        )
        return briefing.first_prompt(brief, request.task)

    def _wishes(self, target: AgentDefinition, parent: Session | None) -> Settings:
        """Return what the configuration would have of a Python child, if that offers it."""
        if target.kind is not RuntimeKind.PYTHON or parent is None:
            return Settings()
        delegation = delegating.delegation_of(self._config(), parent.key.agent)
        return Settings(
            delegation.model or None, thinking=delegation.thinking or None, lenient=True
        )

    # ---- Accepted ----

    async def _accept(self, run: RunRequest, requester: Requester) -> RunReceipt:
        try:
            return await self._accepting.accept(run, requester)
        except BridgeError as error:
            if error.code in _TOLD:
                raise
            data = {**error.data, "cause": error.code}
            raise BridgeError("spawn_failed", error.message, hint=error.hint, data=data) from None

    def _receipt(
        self,
        request: SpawnRequest,
        receipt: RunReceipt,
        runtime: str,
        cwd: str,
        timeout: float | None,
        parent: Session | None,
    ) -> dict[str, Any]:
        told = {
            "status": "accepted",
            "childSessionKey": str(receipt.key),
            "runId": receipt.run_id,
            "mode": request.mode or "run",
            "cwd": cwd,
            "expectsCompletionMessage": request.expects_completion_message,
            "note": self._note(request, receipt.key, parent),
        }
        if request.task_name:
            told["taskName"] = request.task_name
        if runtime == rules.ACP:
            return told if timeout is None else {**told, "runTimeoutSeconds": int(timeout)}
        if request.completion_target:
            told["completionTarget"] = request.completion_target
        told["context"] = "isolated"
        if request.model:
            told["resolvedModel"] = request.model
        return told

    def _note(self, request: SpawnRequest, key: SessionKey, parent: Session | None) -> str:
        parts = [rules.note(request, told=parent is not None)]
        if request.context == "fork":
            parts.append("The context was not forked: the child begins without it.")
        if not self._attended(key):
            parts.append(rules.UNATTENDED)
        child = self._directory.get(key)
        if child is not None and self._accepting.line.waits(child):
            parts.append("It waits for a place (limits.maxProcesses); that counts as no limit.")
        return " ".join(parts)


def _who_hears(request: SpawnRequest, parent: Session | None) -> SessionKey | None:
    """Return whose session hears of the child's end; nobody's is named by a request."""
    return parent.key if parent is not None and request.expects_completion_message else None


def _provenance(parent: Session | None) -> dict[str, Any]:
    """Return what kind of message the task is, as the log keeps it."""
    if parent is None:
        return {}
    return {
        "kind": "inter_session",
        "sourceSessionKey": str(parent.key),
        "sourceTool": "sessions_spawn",
    }
