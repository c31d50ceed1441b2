-- On a hub: what a site calls those of its antennas that have names, for the history it sent.
CREATE TABLE remote_antenna_name (
    site_no       INTEGER NOT NULL,
    remote_reader INTEGER NOT NULL, -- the id of the reader at the site
    port          INTEGER NOT NULL,
    name          TEXT NOT NULL,
    PRIMARY KEY (site_no, remote_reader, port)
) STRICT, WITHOUT ROWID;
