"""acpbridge.protocol"""
