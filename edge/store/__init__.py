"""The only part that knows the database: tables, queries, invariants, transactions, migrations."""
