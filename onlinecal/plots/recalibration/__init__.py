"""Pictures of what a recalibration did."""
