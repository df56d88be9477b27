-- A path with revisions; each revision names an artifact (docs/spec/http-api.md 2.7 and 2.8).
-- A path can be 1024 characters, more than an index entry takes, so it is found by its hash and paged by its beginning.

CREATE TABLE arkvory_assets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository text NOT NULL CHECK (repository ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    path text COLLATE "C" NOT NULL CHECK (char_length(path) BETWEEN 1 AND 1024),
    path_sha256 bytea NOT NULL CHECK (octet_length(path_sha256) = 32),
    revision integer NOT NULL CHECK (revision > 0),
    artifact_id uuid NOT NULL REFERENCES arkvory_uploads (id),
    CONSTRAINT arkvory_assets_path UNIQUE (repository, path_sha256)
);

-- Pages in byte order of UTF-8: the first 512 characters are at most 2048 bytes; ties are sorted by the whole path.
CREATE INDEX arkvory_assets_order ON arkvory_assets (repository, (left(path, 512)) COLLATE "C");
CREATE INDEX arkvory_assets_artifact ON arkvory_assets (artifact_id);

CREATE TABLE arkvory_asset_revisions (
    asset_id bigint NOT NULL REFERENCES arkvory_assets (id),
    revision integer NOT NULL CHECK (revision > 0),
    artifact_id uuid NOT NULL REFERENCES arkvory_uploads (id),
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    PRIMARY KEY (asset_id, revision)
);
CREATE INDEX arkvory_asset_revisions_artifact ON arkvory_asset_revisions (artifact_id);
