"""The open feed: all changes of records, stays and passages for other programs."""
