# Baton in an image: the one binary, and nothing else of ours. `docker-compose.yml` beside it runs everything.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The dependencies stay in a cache mount over builds; the binary is copied out of it.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package agentctl && cp target/release/agentctl /agentctl

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group baton && install -d -o baton -g baton /var/lib/baton /var/lib/baton/artifacts
COPY --from=build /agentctl /usr/local/bin/agentctl
USER baton
# The one place that is written to; the root may be read-only.
VOLUME /var/lib/baton
ENV BATON_ARTIFACTS__FOLDER=/var/lib/baton/artifacts
ENTRYPOINT ["agentctl"]
CMD ["--help"]
