"""Recalibration under the l_p error: sample sizes and counts, Algorithm 2, the recalibrator, and streams.
Nothing here has a state."""
