"""Pictures of a ledger's keys."""
