"""acpbridge.controller"""
