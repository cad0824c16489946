"""acpbridge.model"""
