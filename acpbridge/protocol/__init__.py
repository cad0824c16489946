"""acpbridge.protocol."""
