"""acpbridge.agents."""
