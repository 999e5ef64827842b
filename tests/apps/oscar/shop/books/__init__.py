"""Writes each payment down at which the shop arrives, as a payment provider would."""
