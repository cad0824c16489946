"""acpbridge.config."""
