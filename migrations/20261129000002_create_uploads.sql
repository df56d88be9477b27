-- An upload becomes an artifact under the same id (docs/spec/storage.md 7.2). `pending` bytes are never readable.
-- A row counts against capacity until `reclaimed_at` says that nothing of it is left on disk.

CREATE TABLE arkvory_uploads (
    id uuid PRIMARY KEY,
    repository text NOT NULL CHECK (repository ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    owner text NOT NULL CHECK (char_length(owner) BETWEEN 1 AND 128),
    status text NOT NULL CHECK (status IN ('pending', 'available', 'cancelled')),
    name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 240),
    size bigint NOT NULL CHECK (size >= 0),
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    labels jsonb NOT NULL DEFAULT '[]',
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL DEFAULT now() + interval '7 days',
    published_at timestamptz,
    reclaimed_at timestamptz,
    CHECK ((status = 'available') <= (published_at IS NOT NULL))
);

-- Listing a repository in id order.
CREATE INDEX arkvory_uploads_available ON arkvory_uploads (repository, id) WHERE status = 'available';
-- Finding a published blob with equal bytes, to store them once.
CREATE INDEX arkvory_uploads_content ON arkvory_uploads (sha256, size) WHERE status = 'available';
-- What a crash left behind.
CREATE INDEX arkvory_uploads_pending ON arkvory_uploads (expires_at) WHERE status = 'pending';

-- Bytes that a repository holds or has reserved: the sum of `size` over its uploads that are not reclaimed. Changed in
-- the same transaction as the upload, under the reservation lock, so that a reservation need not sum over all rows.
CREATE TABLE arkvory_repository_usage (
    repository text PRIMARY KEY,
    reserved_bytes numeric(38) NOT NULL CHECK (reserved_bytes >= 0)
);
