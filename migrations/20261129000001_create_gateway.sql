-- The gateway contract (docs/spec/leases.md 5.1). Deleting all rows of the first two tables, in one transaction and
-- with everything stopped, is the documented way to change rates or slot count.

CREATE TABLE arkvory_download_policy (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    slots integer NOT NULL CHECK (slots BETWEEN 2 AND 16),
    bytes_per_second bigint NOT NULL CHECK (bytes_per_second BETWEEN 131072 AND 1099511627776),
    principal_bytes_per_second bigint NOT NULL CHECK (principal_bytes_per_second BETWEEN 0 AND 1099511627776)
);

CREATE TABLE arkvory_gateway_leases (
    slot integer PRIMARY KEY CHECK (slot BETWEEN 0 AND 15),
    instance uuid NOT NULL,
    generation bigint NOT NULL CHECK (generation > 0),
    expires_at timestamptz NOT NULL
);

-- Ties the database to one data directory: its file `storage-id` holds the same id.
CREATE TABLE arkvory_storage_identity (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    storage_id uuid NOT NULL
);
