"""acpbridge.permissions"""
