"""Stands between the bridge and a real agent and writes down every frame: `tee.py CAPTURE PROGRAM`.

Each line of the capture is {"dir": "c2a" | "a2c", "msg": FRAME}, in the order in which the frames
were passed on. Ends with the agent's own status.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


def main(capture: str, *argv: str) -> int:
    """Run the program and copy its stdin and stdout, a line at a time."""
    lock = threading.Lock()
    with Path(capture).open("a", encoding="utf-8") as log:
        agent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def copy(source: IO[bytes], target: IO[bytes], direction: str) -> None:
            for line in source:
                with lock:
                    log.write(json.dumps({"dir": direction, "msg": json.loads(line)}) + "\n")
                    log.flush()
                target.write(line)
                target.flush()
            target.close()

        assert agent.stdin is not None
        assert agent.stdout is not None
        threading.Thread(
            target=copy, args=(sys.stdin.buffer, agent.stdin, "c2a"), daemon=True
        ).start()
        copy(agent.stdout, sys.stdout.buffer, "a2c")
        return agent.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
