"""Walls: screens that show one view through a link, without signing in."""
