"""acpbridge.agents"""
