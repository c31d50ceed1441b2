-- Who has borrowed an asset, and until when. Seen by viewers, changed by operators; both acts are in the audit of the asset.
-- Bound: one for each asset. Retention: until it is returned, afterwards only the audit has it. Backup: with the database. Sync:
-- none, a loan stays on the box that received it. Personal data: the borrower.
CREATE TABLE asset_loan (
    asset_id        INTEGER PRIMARY KEY REFERENCES asset (id) ON DELETE CASCADE,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    borrower        TEXT NOT NULL CHECK (length(borrower) BETWEEN 1 AND 255),
    lent_at         INTEGER NOT NULL,
    due_at          INTEGER, -- end of the last day, exclusive; NULL without a date
    lender          TEXT NOT NULL -- name of the person at that time
) STRICT;
CREATE INDEX asset_loan_due ON asset_loan (organization_id, due_at);
