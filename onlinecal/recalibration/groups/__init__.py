"""Recalibration inside groups: making groups, patches, starts, and the recalibrator. Nothing here has a
state."""
