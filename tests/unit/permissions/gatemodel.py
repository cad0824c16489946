"""What must become of permission requests, in a few plain lines: the broker is compared with it."""

from dataclasses import dataclass, field

from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Effect, Lasts, OnPermission, PermissionRequest, Reason
from acpbridge.permissions.verdict import Ruling

Fate = tuple[Effect, Reason]
DENIED_BY_RULE: Fate = (Effect.DENY, Reason.RULE)
PER_SESSION, IN_ALL, DEADLINE, GRANTED = 3, 5, 250.0, 550.0
# What can be asked for; the last one runs something else, and is never granted.
COMMANDS = ("make", "ls -l", "sh -c make")


@dataclass
class Asked:
    """One request; without a fate it is open, or still judged."""

    request: PermissionRequest
    came: float
    judge: str
    judged: bool = False
    no_opinion: bool = False
    fate: Fate | None = None
    human: bool = False


@dataclass
class Model:
    """All requests, in order, and what rules, people and the disk have come to meanwhile."""

    now: float = 0.0
    asked: dict[str, Asked] = field(default_factory=dict)
    rules: dict[str, Ruling] = field(default_factory=dict)
    grants: dict[tuple[SessionKey, str], tuple[str, float]] = field(default_factory=dict)
    full_disk: bool = False
    stopped: bool = False

    def waiting(self) -> list[Asked]:
        return [one for one in self.asked.values() if one.fate is None]

    def open(self) -> list[Asked]:
        return [one for one in self.waiting() if one.judged]

    def allowed(self, reason: Reason) -> Fate:
        return (Effect.DENY, Reason.AUDIT_FAILED) if self.full_disk else (Effect.ALLOW, reason)

    def ask(self, request: PermissionRequest, judge: str) -> None:
        one = self.asked[request.id] = Asked(request, self.now, judge)
        ids = [option.option_id for option in request.ask.options]
        of_session = [o for o in self.waiting() if o.request.session == request.session]
        if self.stopped:
            one.fate = (Effect.CANCEL, Reason.STOPPING)
        elif not ids:
            one.fate = (Effect.CANCEL, Reason.MALFORMED)
        elif len(set(ids)) < len(ids):
            one.fate = (Effect.DENY, Reason.MALFORMED)
        elif len(of_session) > PER_SESSION or len(self.waiting()) > IN_ALL:
            one.fate = (Effect.DENY, Reason.FLOOD)
        elif judge == "raises":
            one.fate = (Effect.DENY, Reason.JUDGE_FAILED)
        elif judge != "is slow":
            self.judge(one)

    def judge(self, one: Asked) -> None:
        request, what = one.request, command_of(one.request)
        rule = self.rules.get(what)
        one.judged, one.no_opinion = True, rule is not Ruling.ASK and request.turn is not None
        allows = Ruling.ALLOW in (rule, self.granted(request))
        allows = allows or request.run_rule is OnPermission.ALLOW
        if rule is Ruling.DENY or request.run_rule is OnPermission.DENY:
            one.fate = DENIED_BY_RULE
        elif rule is not Ruling.ASK and allows and request.turn and offers(one, "allow"):
            one.fate = self.allowed(Reason.RULE)

    def granted(self, request: PermissionRequest) -> Ruling | None:
        held = self.grants.get((request.session, command_of(request)))
        return Ruling.ALLOW if held is not None and held[1] > self.now else None

    def answer(self, one: Asked, said: str) -> str:
        """Answer a question; return the code of the error that it must come to, "" for none."""
        name, _, confirmed = said.partition("!")
        if one.fate is not None or not one.judged:
            return "no_such_question" if one.fate is None else "already_resolved"
        if name in Effect.__members__:
            name = {"ALLOW": "allow", "DENY": "", "CANCEL": "-"}[name]
        if name not in ("", "-") and not offers(one, name):
            return "invalid_option"
        if name == "odd" and confirmed != "odd":
            return "confirmation_needed"
        one.human = True
        one.fate = (Effect.CANCEL if name == "-" else Effect.DENY, Reason.OPERATOR)
        if name in ("allow", "always", "odd"):
            one.fate = self.allowed(Reason.OPERATOR)
        if name == "always" and one.fate[0] is Effect.ALLOW and self.always(one) is Lasts.SESSION:
            where = (one.request.session, command_of(one.request))
            self.grants[where] = (one.request.id, self.now + GRANTED)
        return ""

    def always(self, one: Asked) -> Lasts | None:
        """What an "always" would come to, as the question says."""
        if not offers(one, "always"):
            return None
        if not offers(one, "allow"):
            return Lasts.AGENT
        grantable = one.no_opinion and command_of(one.request) != COMMANDS[-1]
        return Lasts.SESSION if grantable else Lasts.ONCE

    def take_back(self, ones: list[Asked], reason: Reason) -> None:
        for one in ones:
            one.fate = (Effect.CANCEL, reason)

    def end(self, session: SessionKey | None) -> None:
        self.grants = {w: g for w, g in self.grants.items() if session not in (None, w[0])}

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for one in self.waiting():
            if self.now - one.came >= DEADLINE:
                one.fate = (Effect.DENY, Reason.DEADLINE)
        self.grants = {w: g for w, g in self.grants.items() if g[1] > self.now}


def command_of(request: PermissionRequest) -> str:
    return str(request.ask.subject.raw_input["command"])


def offers(one: Asked, name: str) -> bool:
    return [option.option_id for option in one.request.ask.options].count(name) == 1
