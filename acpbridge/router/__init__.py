"""acpbridge.router."""
