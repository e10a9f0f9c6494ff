"""What the engine's operator sees: scores, alarms and reliability, kept up to date as events come."""
