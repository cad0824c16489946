"""acpbridge.permissions."""
