"""acpbridge.transport"""
