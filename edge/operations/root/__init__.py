"""Work of root on a box, started by the scripts in `systemd`.

Only the standard library: this runs with Debian's Python, between two releases, and while /opt/edge/venv is broken.
Nothing is imported later than at the start, because the files of a release may be removed meanwhile.
"""
