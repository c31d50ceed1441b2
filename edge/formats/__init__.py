"""One file per reader format, each one pure function from (topic, payload) to `Parsed`.

`formats` is the table of them all. A format that is not among them is described by a `mapping`.
"""
