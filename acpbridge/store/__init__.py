"""acpbridge.store"""
