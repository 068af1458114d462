"""Two questions about systems: which is better, and does the order survive other propensities?"""
