"""acpbridge.daemon"""
