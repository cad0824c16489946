"""acpbridge.controller."""
