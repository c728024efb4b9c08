//! Submissions with an `Idempotency-Key`, without a worker: they only queue.
//!
//! Each round measures, for each number of clients, the one statement by pgbench, then Baton over HTTP, then the statement with
//! NOTIFY inside; so a drift of the machine hits all of them, and a ratio is one of neighbours.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::{Request, StatusCode};
use sqlx::{Connection, PgConnection};

use crate::Plan;
use crate::cpu::Cast;
use crate::limits::pgbench::{Extent, Pgbench};
use crate::load::{Body, Load};
use crate::product::{Process, Setting};
use crate::report::{Bound, Findings, Sample, Target};
use crate::samples::{Completion, Rate, Window};
use crate::stage::{Stage, checkpoint};

const CLIENTS: [u16; 3] = [1, 16, 64];

const COLUMNS: &[&str] = &["per s", "p50 ms", "p99 ms"];

const STATEMENT: &str = include_str!("../../sql/submit.sql");

/// The place in the statement, and what a design without a connection of its own for hints would put there.
const NOTIFY_PLACE: &str = "/* notify */";
const NOTIFY: &str = ", pg_notify('baton_queue', ''), pg_notify('baton_events', :session::text || ':2')";

/// Shorter than the others: it shows a factor, which no target names.
const NOTIFY_MEASURED: Duration = Duration::from_secs(2);

/// The message of every submission; the script of pgbench has it too.
const MESSAGE: &[u8] = br#"{"content":[{"type":"text","text":"Calculate 12 times 9"}]}"#;

/// Numbers of twelve digits: see `sessions.sql`.
const FIRST_SESSION: u64 = 100_000_000_000;

/// Fresh sessions that a measurement finds, for each second. More than any machine of two or four cores submits.
const SESSIONS_PER_SECOND: u64 = 40_000;

/// Nobody takes the runs that are queued here, and there are more of them than one tenant may have.
const NO_CAP: Setting<'_> = ("BATON_TENANT__MAX_QUEUED_RUNS", "10000000");

/// How a submission reaches the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// pgbench, one statement: the ceiling.
    Statement,
    /// The product, over HTTP.
    Baton,
    /// pgbench, the statement with NOTIFY inside.
    StatementWithNotify,
}

impl Way {
    fn what(self, clients: u16) -> String {
        let name = match self {
            Self::Statement => "pgbench, one statement",
            Self::Baton => "Baton over HTTP with a key",
            Self::StatementWithNotify => "pgbench, the statement with NOTIFY inside",
        };
        format!("{name}, {clients} clients")
    }
}

pub(crate) async fn run(stage: &Stage, url: &str, plan: Plan) -> Result<Findings> {
    let api = Process::api(url, &[NO_CAP]).await?;
    let mut bench = Bench { sessions: Sessions::open(url).await?, stage, pgbench: stage.pgbench(url)?, api };
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        checkpoint(&mut bench.sessions.session).await?;
        samples.push(bench.pgbench.commit(round, stage.cluster.pid()).await?);
        for clients in CLIENTS {
            for way in [Way::Statement, Way::Baton, Way::StatementWithNotify] {
                let sample = bench.measure(round, way, clients, plan.window()).await.with_context(|| way.what(clients))?;
                eprintln!("round {round}: {}: {:.0} per s", sample.what, sample.figures[COLUMNS[0]]);
                samples.push(sample);
            }
        }
    }
    let notes = vec!["Not compared: Absurd and Restate, which are not installed by this bench.".to_owned()];
    Ok(Findings { title: "submit", columns: COLUMNS, targets: targets(&samples), samples, notes })
}

struct Bench<'s> {
    stage: &'s Stage,
    api: Process,
    pgbench: Pgbench,
    sessions: Sessions,
}

impl Bench<'_> {
    async fn measure(&mut self, round: u32, way: Way, clients: u16, window: Window) -> Result<Sample> {
        let window = if way == Way::StatementWithNotify {
            Window { measured: NOTIFY_MEASURED.min(window.measured), ..window }
        } else {
            window
        };
        let first = self.sessions.prepare(window).await?;
        self.sessions.clear().await?;
        let pids = [self.api.id()];
        let cast = Cast { servers: &pids, workers: &[], postmaster: self.stage.cluster.pid() };
        let before = cast.used()?;
        let completions = match way {
            Way::Statement => self.statement(STATEMENT, clients, window, first).await?,
            Way::StatementWithNotify => self.statement(&STATEMENT.replace(NOTIFY_PLACE, NOTIFY), clients, window, first).await?,
            Way::Baton => self.baton(clients, window, first).await?,
        };
        let cpu = cast.used()?.since(before).each(completions.len());
        self.sessions.audit(completions.len()).await?;
        Ok(Sample::new(round, way.what(clients), Rate::of(&completions, window)?.figures(), cpu))
    }

    async fn statement(&mut self, script: &str, clients: u16, window: Window, first: u64) -> Result<Vec<Completion>> {
        let variables = [
            ("first", first.to_string()),
            ("clients", clients.to_string()),
            ("turn", 0.to_string()),
            ("run_prefix", self.sessions.run_prefix().await?),
        ];
        let ran = self.pgbench.run(script, clients, Extent::For(window), &variables).await?;
        self.sessions.take(ran.turns_max * u64::from(clients));
        Ok(ran.completions)
    }

    async fn baton(&mut self, clients: u16, window: Window, first: u64) -> Result<Vec<Completion>> {
        let address = self.api.address()?;
        let host = address.to_string();
        let load = Load { address, clients, window, expected: StatusCode::ACCEPTED };
        let completions = load.run(move |turn| submission(&host, first + turn)).await?;
        self.sessions.take(completions.len() as u64);
        Ok(completions)
    }
}

fn submission(host: &str, session: u64) -> Request<Body> {
    Request::post(format!("/v1/sessions/00000000-0000-7000-8000-{session}/messages"))
        .header("host", host)
        .header("content-type", "application/json")
        .header("idempotency-key", rand::random::<u64>())
        .body(Body::new(Bytes::from_static(MESSAGE)))
        .expect("its parts are visible ASCII")
}

/// The supply of sessions, each for one submission.
struct Sessions {
    session: PgConnection,
    next: u64,
    end: u64,
}

impl Sessions {
    async fn open(url: &str) -> Result<Self> {
        Ok(Self { session: PgConnection::connect(url).await?, next: FIRST_SESSION, end: FIRST_SESSION })
    }

    /// Inserts what a measurement needs beyond what those before have left. The first of them.
    async fn prepare(&mut self, window: Window) -> Result<u64> {
        let wanted = self.next + SESSIONS_PER_SECOND * window.total().as_secs();
        if wanted > self.end {
            let (from, to) = (self.end.cast_signed(), wanted.cast_signed());
            let inserted =
                sqlx::query(include_str!("../../sql/sessions.sql")).bind(from).bind(to).execute(&mut self.session).await?;
            ensure!(inserted.rows_affected() == wanted - self.end, "there is no agent for the sessions");
            // The first time a planner sees the table; later it sees it grow.
            if self.end == FIRST_SESSION {
                sqlx::query("VACUUM ANALYZE sessions, agent_versions").execute(&mut self.session).await?;
            }
            self.end = wanted;
        }
        Ok(self.next)
    }

    fn take(&mut self, count: u64) {
        self.next += count;
    }

    /// The beginning of run identifiers as version 7 would have it now, up to the twelve digits of a session's number.
    async fn run_prefix(&mut self) -> Result<String> {
        let now = "SELECT lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::int8), 12, '0')";
        let hex: String = sqlx::query_scalar(now).fetch_one(&mut self.session).await?;
        Ok(format!("{}-{}-7000-8000-", &hex[..8], &hex[8..]))
    }

    /// A measurement finds what its neighbours found: no run, no key, no event.
    async fn clear(&mut self) -> Result<()> {
        sqlx::query("TRUNCATE runs, events, idempotency_keys CASCADE").execute(&mut self.session).await?;
        Ok(())
    }

    /// Everything that was counted is stored, and nothing else.
    async fn audit(&mut self, submitted: usize) -> Result<()> {
        let stored: (i64, i64, i64) = sqlx::query_as(include_str!("../../sql/audit.sql")).fetch_one(&mut self.session).await?;
        let submitted = submitted as i64;
        ensure!(
            stored == (submitted, submitted, 2 * submitted),
            "{submitted} submissions were counted, (runs, keys, events) are {stored:?}"
        );
        Ok(())
    }
}

fn targets(samples: &[Sample]) -> Vec<Target> {
    let target = |clients, figure, claim: &str, bound| {
        let (ours, theirs) = (Way::Baton.what(clients), Way::Statement.what(clients));
        let seen = Findings::ratios(samples, (&ours, figure), (&theirs, figure));
        Target { claim: format!("{clients} clients: {claim} of the statement"), bound, seen }
    };
    vec![
        target(1, "p50 ms", "p50 to that", Bound::AtMost(1.25)),
        target(16, "per s", "rate to that", Bound::AtLeast(0.7)),
        target(64, "per s", "rate to that", Bound::AtLeast(1.0)),
    ]
}
