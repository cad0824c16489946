"""Look at what one real agent sends for one prompt: `python -m tests.real.probe codex "say hi"`.

A tool for a developer, no test: it starts the agent against the scripted model, sets the asking
mode, sends the prompt, prints every frame that crosses, and judges the capture by the official
schema.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from fixtures.fake_model import FakeModel
from tests import check_frames
from tests.real import install
from tests.real.agents import AGENTS, prepare
from tests.real.client import Client, Frame

SCHEMA = Path(__file__).parent.parent / "acp-schema" / "schema.json"
SHOWN = 600  # characters of a frame; a session/new answer has kilobytes of models


def main() -> int:
    """Probe, and return the number of the schema check: 0 clean, 1 violations."""
    arguments = _arguments()
    install.install()
    with tempfile.TemporaryDirectory(prefix="probe-") as scratch, FakeModel() as model:
        home, work = Path(scratch, "home"), Path(scratch, "work")
        home.mkdir()
        work.mkdir()
        agent = prepare(arguments.agent, home=home, port=model.port)
        capture = arguments.capture or Path(scratch, "capture.jsonl")
        with Client(agent, work, _answerer(arguments.answer), capture) as client:
            _talk(client, work, arguments.mode or agent.asking_mode, arguments.prompt)
            print(f"exit {client.end():.2f} s after closing stdin, rc {client.process.returncode}")
        for way, at, frame in client.frames:
            print(f"{at:7.3f} {way} {json.dumps(frame)[:SHOWN]}")
        for request in model.requests:
            print("model:", request.path, "(side)" if request.side else repr(request.prompt))
        return check_frames.main([str(SCHEMA), str(capture)])


def _talk(client: Client, work: Path, mode: str, prompt: str) -> None:
    capabilities: Frame = {"fs": {"readTextFile": False, "writeTextFile": False}}
    client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
    session = client.ask("session/new", {"cwd": str(work), "mcpServers": []})
    if "error" in session:
        return
    session_id = session["result"]["sessionId"]
    client.ask("session/set_mode", {"sessionId": session_id, "modeId": mode})
    blocks = [{"type": "text", "text": prompt.replace("{cwd}", str(work))}]
    client.ask("session/prompt", {"sessionId": session_id, "prompt": blocks})


def _answerer(kind: str) -> Any:
    def answer(request: Frame) -> Frame:
        if request["method"] != "session/request_permission":
            return {"error": {"code": -32601, "message": "Method not found"}}
        for option in request["params"]["options"]:
            if option["kind"] == kind:
                chosen = {"outcome": "selected", "optionId": option["optionId"]}
                return {"result": {"outcome": chosen}}
        return {"result": {"outcome": {"outcome": "cancelled"}}}

    return answer


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.real.probe")
    parser.add_argument("agent", choices=AGENTS)
    parser.add_argument("prompt", help="a directive of the scripted model; {cwd} is filled in")
    parser.add_argument("--mode", help="instead of the asking mode")
    parser.add_argument("--answer", default="allow_once", help="the kind of option to choose")
    parser.add_argument("--capture", type=Path, help="keep the frames in this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
