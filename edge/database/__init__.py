"""The only package that knows the database: tables, queries, invariants, transactions, migrations."""
