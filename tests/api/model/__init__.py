"""What the API promises, as plain data: the records and scans of an organization, and what each request makes of them.

`record` and `organization` are written from the specification and the contract alone. They import nothing of the
program, so that the two can only agree by being right, or by the same misreading. Only what the server may choose
freely (ids, the next `updated_at`) is taken over from its answers. Times are microseconds. `site` asks the program at
random, and compares.
"""
