"""acpbridge.daemon."""
