"""acpbridge.cli"""
