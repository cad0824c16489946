"""`subagents wait`: until tasks are over, or one of them needs a person.

It only looks: nothing of a completion is taken by it, so that its announce comes all the same, and
whoever stops waiting leaves every task running. Above is `subagents`.
"""

from collections.abc import Sequence
from typing import Any, Final

import anyio

from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.router.authorize import unreachable
from acpbridge.router.directory import Directory
from acpbridge.router.look_requests import SubagentsRequest
from acpbridge.router.questions import Questions
from acpbridge.router.services import Services
from acpbridge.router.workload import Work, Workload

COMPLETED: Final = "completed"
ATTENTION: Final = "attention"
UNAVAILABLE: Final = "unavailable"
TIMEOUT: Final = "timeout"


class Awaiting:
    """Waits for tasks.

    Args:
        directory: who lies below whom.
        services: the open questions.
        questions: tells that one was asked.
        workload: the runs.
    """

    def __init__(
        self, directory: Directory, services: Services, questions: Questions, workload: Workload
    ) -> None:
        self._directory = directory
        self._services = services
        self._questions = questions
        self._workload = workload

    async def wait(self, request: SubagentsRequest, requester: Requester) -> dict[str, Any]:
        """Wait until all tasks are over, one needs a person, one is not there, or it is time."""
        with anyio.move_on_after(request.timeout_seconds):
            while True:
                revision = self._questions.revision
                reason, works = await self._look(request, requester)
                if reason != TIMEOUT:
                    break
                await self._news(works, revision)
        # What came just before the time was over is told too.
        reason, works = await self._look(request, requester)
        return self._told(reason, request, works)

    async def _look(
        self, request: SubagentsRequest, requester: Requester
    ) -> tuple[str, list[Work]]:
        """Return why there is nothing more to wait for, `timeout` if there is; and the tasks."""
        wanted = set(request.task_ids)
        tasks = await self._workload.tasks(requester)
        works = [work for work in tasks if work.run.run_id in wanted]
        if len(works) < len(wanted):
            return UNAVAILABLE, works
        if all(work.over for work in works):
            return COMPLETED, works
        if any(self._needs_person(work) for work in works):
            return ATTENTION, works
        return TIMEOUT, works

    async def _news(self, works: Sequence[Work], revision: int) -> None:
        """Wait until one of the tasks has ended, or anything was asked."""
        async with anyio.create_task_group() as tasks:

            async def ended(work: Work) -> None:
                if work.turn is None:
                    return
                await work.turn.done.wait()
                tasks.cancel_scope.cancel()

            async def asked() -> None:
                await self._questions.changed(revision)
                tasks.cancel_scope.cancel()

            tasks.start_soon(asked)
            for work in works:
                if not work.over:
                    tasks.start_soon(ended, work)

    def _needs_person(self, work: Work) -> bool:
        return not work.over and work.session.key in self._asking()

    def _asking(self) -> set[SessionKey]:
        """Return in which sessions, or below which, a question is open."""
        asking = {question.request.session for question in self._services.broker.questions()}
        return asking | {above for key in asking for above in self._directory.line_above(key)}

    def _told(
        self, reason: str, request: SubagentsRequest, works: Sequence[Work]
    ) -> dict[str, Any]:
        rows = {work.run.run_id: self._workload.task_row(work) for work in works}
        need = [work.run.run_id for work in works if self._needs_person(work)]
        done = [work.run.run_id for work in works if work.over]
        missing = [task for task in dict.fromkeys(request.task_ids) if task not in rows]
        return {
            "status": "ok",
            "action": "wait",
            "reason": reason,
            "completed": [rows[task] for task in done],
            "attention": [rows[task] for task in need],
            "unavailable": [{"taskId": task, "error": unreachable().message} for task in missing],
            "running": [row for task, row in rows.items() if task not in {*done, *need}],
        }
