"""The one seam between sessions and what runs them: `base`, with an ACP and a Python side."""
