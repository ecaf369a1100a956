"""Privacy filters, which bound adaptively chosen releases by a budget: pure functions, no storage."""
