"""acpbridge.runtimes"""
