"""What all that may rule a request say of it together: the run, the policy in force, the grants.

Above is the broker, which acts on it; below are the rules, which are pure. Nothing here ever
allows where it failed: what could not be looked up or judged in time is denied.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Final, Protocol

import structlog

from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import OnPermission, PermissionRequest, Reason
from acpbridge.permissions import policy
from acpbridge.permissions.resolving import resolver
from acpbridge.permissions.rules.facts import Facts
from acpbridge.permissions.rules.gather import Resolve, facts_of
from acpbridge.permissions.verdict import NO_MATCH, Ruling, Verdict, merge
from acpbridge.transport.threads import Threads

log = structlog.get_logger(__name__)

# The rules have this long for one request (row 31). It is processor time of their own thread: on a
# loaded machine the time of day would deny what is in order. Seconds.
RULE_SECONDS: Final = 0.05
# A look at the disk, or a judgement with all of them, has this long by the clock: a disk that takes
# longer counts as one that hangs. Seconds.
DISK_SECONDS: Final = 2.0

# Where an agent's child works is the agent's choice, and none of its choices allows anything.
STRAYS: Final = "directory_of_an_agents_choice"

# Whoever puts a link in the place of the session's directory has not chosen another one for it.
MOVED: Final = "directory_moved"
# So many directories are remembered as they were: a hundred times the sessions of a busy day.
PLACES: Final = 10_000

# While the policy is broken nothing else may allow either (row 30).
BROKEN: Final = Verdict(Ruling.ASK, "policy:broken")


class Book(Protocol):
    """Rules, as far as they are asked here: a `Rulebook`."""

    @property
    def sha256(self) -> str:
        """Of the text that they are from."""
        ...

    def judge(self, facts: Facts) -> Verdict:
        """Return what the rules want of a request with these facts."""
        ...


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules in force.

    Attributes:
        book: they.
        broken: whether the file cannot be used, so that everything that they do not deny is asked.
    """

    book: Book
    broken: bool = False


def no_grants(request: PermissionRequest, facts: Facts) -> Verdict | None:
    """Return what nobody has granted."""
    del request, facts
    return None


def its_own(session: SessionKey) -> tuple[str, ...] | None:
    """Return that the directories of a session are those that a person chose."""
    del session
    return None


class Judging:
    """Judges requests.

    Args:
        current: returns the policy in force; it may take a look at the disk.
        grants: says what was granted of a request, given its facts; None: it is not covered.
        roots: returns within which directories a person has a session work; None: its own are that.
        seconds: for the looks at the disk that a request needs, by the clock.
    """

    def __init__(
        self,
        current: Callable[[], Awaitable[Policy]],
        grants: Callable[[PermissionRequest, Facts], Verdict | None] = no_grants,
        roots: Callable[[SessionKey], tuple[str, ...] | None] = its_own,
        *,
        seconds: float = DISK_SECONDS,
    ) -> None:
        self._current = current
        self._grants = grants
        self._roots = roots
        self._places: OrderedDict[tuple[SessionKey, str], str | None] = OrderedDict()
        self._seconds = seconds
        self._threads = Threads(seconds)

    async def judge(self, request: PermissionRequest) -> Verdict:
        """Return the one verdict on a request. Fails for nobody: what went wrong is a denial."""
        try:
            return await self._judged(request)
        except TimeoutError as error:
            log.warning("a request was not judged in time", request=request.id, error=str(error))
            return _failed("error:timeout")
        except Exception:
            # The boundary of a call: whatever it was, deny.
            log.exception("a request could not be judged", request=request.id)
            return _failed("error:rules")

    async def _judged(self, request: PermissionRequest) -> Verdict:
        rules = await self._current()
        # One answer for each path: nothing is swapped within a judgement.
        resolve = cache(resolver(self._seconds))
        look = partial(_look, rules.book, request, self._roots(request.session), resolve)
        facts, of_rules, doubt, roots = await self._threads.run(look)
        found = [
            policy.judge(request) if request.run_rule is not OnPermission.ASK else None,
            of_rules,
            BROKEN if rules.broken else None,
            self._grants(request, facts),
        ]
        opinions = (verdict for verdict in found if verdict is not None)
        verdict = combined(request, opinions, doubt or self._moved(request.session, roots))
        return replace(verdict, policy_sha256=rules.book.sha256, facts=facts)

    def _moved(self, session: SessionKey, roots: Mapping[str, str | None]) -> str:
        """Return the doubt about a session one of whose directories is not what it was at first."""
        before = {root: self._places.setdefault((session, root), roots[root]) for root in roots}
        while len(self._places) > PLACES:
            self._places.popitem(last=False)
        return "" if before == roots else MOVED


def combined(request: PermissionRequest, verdicts: Iterable[Verdict], doubt: str = "") -> Verdict:
    """Return what verdicts come to; where there is a doubt, none that allows counts (row 9, 14).

    A run that asks and rules that do not match have no opinion.

    Args:
        request: what is asked.
        verdicts: what those say that may rule it.
        doubt: why neither rule nor grant may allow it, besides what it says itself.
    """
    found = [verdict for verdict in verdicts if verdict is not NO_MATCH]
    doubt = policy.doubt(request) or doubt
    if doubt:
        found = [verdict for verdict in found if verdict.effect is not Ruling.ALLOW]
        found.append(Verdict(Ruling.ASK, doubt))
    return merge(found)


def _look(
    book: Book, request: PermissionRequest, roots: tuple[str, ...] | None, resolve: Resolve
) -> tuple[Facts, Verdict, str, Mapping[str, str | None]]:
    """Return facts, what the rules say, what is doubtful, and where the session works. Blocks."""
    facts = facts_of(request, resolve, str(Path.home()))
    strays = roots is not None and _strays(request.roots, roots, resolve)
    own = {root: resolve(root) for root in request.roots}
    return facts, _by_rules(book, request, facts), STRAYS if strays else "", own


def _by_rules(book: Book, request: PermissionRequest, facts: Facts) -> Verdict:
    # What is slow once may have had a collection of garbage fall into it; what is slow twice is.
    for _ in range(2):
        started = time.thread_time()
        verdict = book.judge(facts)
        if time.thread_time() - started <= RULE_SECONDS:
            return verdict
    log.warning("the rules took too long for a request", request=request.id)
    return _failed("error:slow_rules")


def _strays(own: tuple[str, ...], allowed: tuple[str, ...], resolve: Resolve) -> bool:
    """Tell whether a session works anywhere but below directories that a person chose."""
    tops = [Path(found) for found in map(resolve, allowed) if found is not None]
    places = [None if found is None else Path(found) for found in map(resolve, own)]
    return not places or not all(
        place is not None and any(place.is_relative_to(top) for top in tops) for place in places
    )


def _failed(rule: str) -> Verdict:
    return Verdict(Ruling.DENY, rule, Reason.JUDGE_FAILED)
