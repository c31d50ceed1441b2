"""Validation of request bodies, queries and single values. Returns plain values or raises Invalid with FieldErrors."""
