"""Stays, passages and carriers as events of GS1 EPCIS 2.0."""
