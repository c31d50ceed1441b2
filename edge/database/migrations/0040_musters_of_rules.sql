-- Ids of the plans whose musters an alert starts, separated by blanks. All as for the rule.
ALTER TABLE rule ADD COLUMN musters TEXT NOT NULL DEFAULT '';
