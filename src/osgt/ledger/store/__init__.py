"""Storage of the chain of a ledger: databases, locks, checkpoints and copies."""
