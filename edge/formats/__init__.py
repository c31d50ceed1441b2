"""Reader formats, one file each: a pure function from (topic, payload) to `Parsed`.

`registry` lists all formats. Other formats are described by a `mapping`.
"""
