"""acpbridge.config"""
