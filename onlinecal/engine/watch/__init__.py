"""What the engine's operator sees: sums, alarms and pictures that are kept as events come."""
