# One image for every role: what a container does is decided by ARKVORY_ROLE, or by the command that it is given.
#
# There is no "syntax" line on purpose: it would make the builder fetch a frontend from a registry, and the builder's own
# frontend knows all that is used here. Two caches make a rebuild fast:
#   - the dependencies are compiled in a layer of their own, which only Cargo.lock and the relevant part of Cargo.toml
#     can make stale: a change in src/ compiles this one crate;
#   - downloaded crates lie in a cache mount, so that even a change of Cargo.lock downloads only what is new.

FROM rust:1.95-slim-trixie AS toolchain
WORKDIR /build

# The manifest, without what cannot change a dependency: comments, and the tables of tests and benchmarks, whose files
# are not in this image. A layer that copies this file stays valid as long as its content does.
FROM toolchain AS manifest
COPY Cargo.toml .
RUN awk '/^\[/ { drop = /^\[\[(test|bench|example)\]\]/ } !drop && !/^[ \t]*(#|$)/' Cargo.toml > Cargo.build.toml

FROM toolchain AS build
# The queries were checked against a database when they were written (.sqlx); a build of the image has none.
ENV SQLX_OFFLINE=true
COPY --from=manifest /build/Cargo.build.toml Cargo.toml
COPY Cargo.lock .
# Empty sources of the same shape, so that everything but this crate is compiled here. What was made of the empty sources
# is removed again: cargo compares times, and the real sources may be older than this build.
RUN --mount=type=cache,id=arkvory-registry,target=/usr/local/cargo/registry,sharing=locked \
    mkdir src \
 && echo 'fn main() {}' > src/main.rs && : > src/lib.rs \
 && cargo build --release --locked --bin arkvory \
 && rm -rf src target/release/arkvory* target/release/libarkvory* \
    target/release/deps/arkvory-* target/release/deps/libarkvory-* target/release/.fingerprint/arkvory-*
COPY migrations migrations
COPY .sqlx .sqlx
COPY src src
RUN --mount=type=cache,id=arkvory-registry,target=/usr/local/cargo/registry,sharing=locked \
    cargo build --release --locked --bin arkvory \
 && install -D -m 755 target/release/arkvory /out/arkvory

# What users run: Debian, one binary, and the public certificate authorities that Debian trusts.
FROM debian:trixie-slim
# Debian's list, for exports over https. It comes from the toolchain image, where the package ca-certificates is installed
# anyway; whatever else that image trusts in order to download crates is in another file and stays there.
COPY --from=toolchain /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# A number, not a name, so that volumes keep their owner across images. Nobody can log in with it.
RUN groupadd --gid 10001 arkvory \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin arkvory
COPY --from=build /out/arkvory /usr/local/bin/arkvory
USER 10001:10001
# The process drains at SIGTERM: see docs/spec, "Drain and stop".
STOPSIGNAL SIGTERM
# The binary asks its own /health/status, so the image needs no other program for it.
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 CMD ["arkvory", "healthcheck"]
ENTRYPOINT ["arkvory"]
