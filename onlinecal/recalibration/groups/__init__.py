"""Recalibration inside groups: making groups, patches, starts, and the recalibrator."""
