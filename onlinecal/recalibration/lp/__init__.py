"""Recalibration under l_p error."""
