"""The verb `stream`: the engine on standard input and output, and what belongs to its ledger."""
