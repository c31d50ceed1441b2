"""Rules of request bodies, queries and single values: plain values out, or Invalid with a FieldError for each fault."""
