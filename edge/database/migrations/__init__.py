"""Numbered steps from an empty file to the present schema; each file is one step, in the order of its number."""
