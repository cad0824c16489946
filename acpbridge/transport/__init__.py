"""acpbridge.transport."""
