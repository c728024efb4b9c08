# What contributors do, by name. `just` is a convenience: each recipe is plain commands.

# Everything that CI checks.
check:
    .ci/run

# The tests, as the README has them.
test *ARGS:
    cargo test {{ARGS}}

# Five minutes of kills and restarts under load; its summary belongs into docs/reliability.md.
chaos SECONDS="300":
    BATON_CHAOS_SECONDS={{SECONDS}} cargo test --test it chaos -- --nocapture

# Checks every query against a fresh schema, and writes the metadata that offline builds use.
sqlx:
    rm -rf .sqlx && mkdir .sqlx
    touch core/src/lib.rs
    cargo run -q -p baton-devdb --example with -- env SQLX_OFFLINE=false SQLX_OFFLINE_DIR="$PWD/.sqlx" cargo check -q -p baton-core

# Writes what the code generates: openapi.yaml and docs/reference/errors.md.
generate:
    BATON_WRITE=1 cargo test -q -p agentctl --test it openapi_files

# Plays a client of the document against a real server, with generated requests.
fuzz-api SECONDS="100":
    cargo build -p agentctl
    [ -x target/schemathesis/bin/schemathesis ] || { python3 -m venv target/schemathesis && target/schemathesis/bin/pip install -q "schemathesis==4.32.5"; }
    RUST_LOG=error target/schemathesis/bin/python tests/schemathesis/run.py target/debug/agentctl {{SECONDS}}

fmt:
    cargo fmt --all

lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Every hot path beside its physical limit, within a quarter of an hour: `just bench --only live,replay` is a part of it.
bench *ARGS:
    cargo run --release -p baton-bench -- {{ARGS}}
