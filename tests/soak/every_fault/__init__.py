"""Every call that changes a file fails once: of a job with n such calls, the first, the second, and so on to the last.

    python -m tests.soak.every_fault [JOB ...]

Nothing is drawn: the number of a call is the same fault each time. It needs a C compiler.
"""
