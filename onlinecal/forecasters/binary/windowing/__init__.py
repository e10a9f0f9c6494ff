"""Certificates of the last so many rounds."""
