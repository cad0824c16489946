"""What several commands have alike: their options, and the limits that follow from them."""

from typing import Final

import click

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

# Seconds that somebody is given to end politely.
GRACE: Final = click.FloatRange(min=0, max=3600)

# What a kill may take after the grace: an answer, TERM, the last step, and a margin. Seconds.
KILL_LIMIT: Final = 30.0

# A grace of the agent's own, where none was given, is at most this. Seconds.
LONGEST_GRACE: Final = 10.0
