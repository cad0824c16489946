"""acpbridge.cli."""
