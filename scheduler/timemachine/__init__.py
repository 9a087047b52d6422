"""The product's clock tower on a virtual clock, all in memory: the same planner, order and quotas, and no sleeping."""
