"""A model of the API: the records and scans of an organization, and the response to each request.

`record` and `organization` follow the specification and the contract only and import nothing of the program, so an
error would have to be made twice to go unnoticed. Values that the server may choose (ids, the next `updated_at`) are
taken from its responses. Times are microseconds. `site` sends random requests and compares.
"""
