"""The facts about a plan, a release and a ledger, and the sentences that say them."""
