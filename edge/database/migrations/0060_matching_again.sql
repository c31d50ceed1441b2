-- More spellings of a location's GLN: as a link, and without a symbology identifier.
UPDATE tag SET gs1_key = '(414)' || substr(value, instr(value, '/414/') + 5, 13)
    || iif(substr(value, instr(value, '/414/') + 18) = '', '', '(254)' || substr(value, instr(value, '/414/') + 23))
WHERE gs1_key IS NULL AND (lower(value) GLOB 'http*://?*/414/*' OR lower(value) GLOB ']??http*://?*/414/*')
    AND substr(value, instr(value, '/414/') + 5, 13) NOT GLOB '*[^0-9]*'
    AND (length(value) = instr(value, '/414/') + 17
        OR substr(value, instr(value, '/414/') + 18) GLOB '/254/?*'
            AND substr(value, instr(value, '/414/') + 23) NOT GLOB '*[/?#%]*');
UPDATE tag SET gs1_key = '(414)' || substr(value, 4, 13) || '(254)' || substr(value, 20)
WHERE gs1_key IS NULL AND value GLOB '414' || replace(printf('%013d', 0), '0', '[0-9]') || '254?*'
    AND substr(value, 20) NOT GLOB '*[^!-z]*';
-- Kept messages wait for hashes of keys by the rules of an earlier release. A replay notes the keys of this one.
INSERT INTO replay (organization_id, reader_id)
SELECT DISTINCT organization_id, reader_id FROM raw_message
WHERE organization_id IS NOT NULL AND reader_id IN (SELECT id FROM reader WHERE deleted_at IS NULL);
-- No read is stronger than 0 dBm, so a higher minimum ignored all reads.
UPDATE reader SET min_rssi = NULL WHERE min_rssi > 0;
UPDATE antenna SET min_rssi = NULL WHERE min_rssi > 0;
