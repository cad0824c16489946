"""acpbridge.router"""
