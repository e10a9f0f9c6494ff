"""Who belongs to which group, and forecasters that are calibrated inside each."""
