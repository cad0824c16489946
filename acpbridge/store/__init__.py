"""acpbridge.store."""
