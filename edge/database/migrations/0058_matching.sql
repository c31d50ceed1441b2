-- Keys of tags by the rules of this release. GTIN-8, -12, -13 and -14 of one product have one key.
UPDATE tag SET match_key = substr('000000' || match_key, -14)
WHERE tag_type = 'barcode' AND length(match_key) IN (8, 12, 13) AND match_key NOT GLOB '*[^0-9]*'
    AND (SELECT sum(substr(substr('000000' || tag.match_key, -14), value, 1) * iif(value % 2, 3, 1))
         FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12,13,14]')) % 10 = 0;
UPDATE OR REPLACE unknown_tag SET match_key = substr('000000' || match_key, -14)
WHERE tag_type = 'barcode' AND length(match_key) IN (8, 12, 13) AND match_key NOT GLOB '*[^0-9]*'
    AND (SELECT sum(substr(substr('000000' || unknown_tag.match_key, -14), value, 1) * iif(value % 2, 3, 1))
         FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12,13,14]')) % 10 = 0;
UPDATE OR REPLACE dismissal SET subject = 'barcode:' || substr('000000' || substr(subject, 9), -14)
WHERE kind = 'tag' AND subject GLOB 'barcode:*' AND length(subject) IN (16, 20, 21)
    AND substr(subject, 9) NOT GLOB '*[^0-9]*'
    AND (SELECT sum(substr(substr('000000' || substr(dismissal.subject, 9), -14), value, 1) * iif(value % 2, 3, 1))
         FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12,13,14]')) % 10 = 0;
-- Invisible characters at the ends of a code are no part of its key: zero-width ones, marks of direction, U+FEFF.
UPDATE tag SET match_key = trim(match_key, char(173, 8203, 8204, 8205, 8206, 8207, 8234, 8236, 8288, 65279))
WHERE match_key <> trim(match_key, char(173, 8203, 8204, 8205, 8206, 8207, 8234, 8236, 8288, 65279));
UPDATE OR REPLACE unknown_tag SET match_key = trim(match_key, char(173, 8203, 8204, 8205, 8206, 8207, 8234, 8236, 8288, 65279))
WHERE match_key <> trim(match_key, char(173, 8203, 8204, 8205, 8206, 8207, 8234, 8236, 8288, 65279));
-- A hexadecimal number with more than 96 bits only begins like a GS1 EPC.
UPDATE tag SET gs1_key = NULL
WHERE gs1_key IS NOT NULL AND (
    SELECT digits NOT GLOB '*[^0-9A-F]*' AND substr(digits, 1, 2) IN ('30', '31', '33', '34')
        AND trim(substr(digits, 25), '0') <> ''
    FROM (SELECT ltrim(replace(replace(replace(upper(tag.value), ' ', ''), '-', ''), '0X', ''), '0') AS digits));
-- Locations have an identity, too: their GLN, with its extension.
UPDATE tag SET gs1_key = value
WHERE gs1_key IS NULL AND value GLOB '(414)' || replace(printf('%013d', 0), '0', '[0-9]') || '*'
    AND (length(value) = 18 OR substr(value, 19, 5) = '(254)' AND instr(substr(value, 24), '(') = 0);
UPDATE tag SET gs1_key = '(414)' || substr(value, 7, 13) || iif(length(value) = 19, '', '(254)' || substr(value, 23))
WHERE gs1_key IS NULL AND value GLOB '][CedQJ][0-3]414' || replace(printf('%013d', 0), '0', '[0-9]') || '*'
    AND (length(value) = 19 OR substr(value, 20, 3) = '254');
