//! Submissions with an `Idempotency-Key`, without a worker: they only queue.
//!
//! Each round measures, for each number of clients, the one statement by pgbench, then Baton over HTTP, then the statement with
//! NOTIFY inside; so a drift of the machine hits all of them, and a ratio is one of neighbours.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::{Request, StatusCode};
use serde::Serialize;
use sqlx::{Connection, PgConnection};

use crate::Plan;
use crate::cpu::Share;
use crate::limits::Pgbench;
use crate::load::{Body, Load};
use crate::samples::{Completion, Rate, Spread, Window};
use crate::stage::Stage;

const CLIENTS: [u16; 3] = [1, 16, 64];

/// Measurements of a round: three for each number of clients, and the commit.
pub(crate) const SEGMENTS_PER_ROUND: u32 = 10;

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

/// How a submission reaches the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// pgbench, one statement: the ceiling.
    Statement,
    /// The product, over HTTP.
    Baton,
    /// pgbench, the statement with NOTIFY inside.
    StatementWithNotify,
}

/// One measurement.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Sample {
    pub(crate) round: u32,
    pub(crate) way: Way,
    pub(crate) clients: u16,
    #[serde(flatten)]
    pub(crate) rate: Rate,
    #[serde(flatten)]
    pub(crate) cpu: Share,
}

/// A target of performance.md. Only rounds in which nobody else was at work decide: a disturbance hits one of two neighbours.
#[derive(Debug, Serialize)]
pub(crate) struct Target {
    pub(crate) clients: u16,
    pub(crate) claim: &'static str,
    pub(crate) calm_rounds: usize,
    /// None without a calm round, and so is `met`.
    pub(crate) ratio: Option<Spread>,
    pub(crate) met: Option<bool>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    /// F, in milliseconds.
    pub(crate) commit_ms: Spread,
    pub(crate) samples: Vec<Sample>,
    pub(crate) targets: Vec<Target>,
}

pub(crate) async fn run(stage: &mut Stage, plan: Plan) -> Result<Outcome> {
    let pgbench = Pgbench::find(&stage.cluster, &stage.url, &stage.folder)?;
    let mut bench = Bench { sessions: Sessions::open(&stage.url).await?, stage, pgbench, submitted: 0 };
    let (mut commits, mut samples) = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        bench.sessions.checkpoint().await?;
        commits.push(bench.pgbench.commit_ms().await?);
        for clients in CLIENTS {
            for way in [Way::Statement, Way::Baton, Way::StatementWithNotify] {
                let sample = bench
                    .measure(round, way, clients, plan.window())
                    .await
                    .with_context(|| format!("{way:?}, {clients} clients"))?;
                eprintln!("round {round}: {way:?}, {clients} clients: {:.0} per s", sample.rate.per_second);
                samples.push(sample);
            }
        }
    }
    bench.sessions.audit(bench.submitted).await?;
    Ok(Outcome { commit_ms: Spread::of(commits), targets: targets(&samples), samples })
}

struct Bench<'s> {
    stage: &'s Stage,
    pgbench: Pgbench,
    sessions: Sessions,
    submitted: usize,
}

impl Bench<'_> {
    async fn measure(&mut self, round: u32, way: Way, clients: u16, window: Window) -> Result<Sample> {
        let window = if way == Way::StatementWithNotify {
            Window { measured: NOTIFY_MEASURED.min(window.measured), ..window }
        } else {
            window
        };
        let first = self.sessions.prepare(window).await?;
        let before = self.stage.cpu_used()?;
        let completions = match way {
            Way::Statement => self.statement(STATEMENT, clients, window, first).await?,
            Way::StatementWithNotify => self.statement(&STATEMENT.replace(NOTIFY_PLACE, NOTIFY), clients, window, first).await?,
            Way::Baton => self.baton(clients, window, first).await?,
        };
        let cpu = self.stage.cpu_used()?.since(before, completions.len());
        self.submitted += completions.len();
        Ok(Sample { round, way, clients, rate: Rate::of(&completions, window)?, cpu })
    }

    async fn statement(&mut self, script: &str, clients: u16, window: Window, first: u64) -> Result<Vec<Completion>> {
        let variables = [
            ("first", first.to_string()),
            ("clients", clients.to_string()),
            ("turn", 0.to_string()),
            ("run_prefix", self.sessions.run_prefix().await?),
        ];
        let ran = self.pgbench.run(script, clients, window, &variables).await?;
        self.sessions.take(ran.turns_max * u64::from(clients));
        Ok(ran.completions)
    }

    async fn baton(&mut self, clients: u16, window: Window, first: u64) -> Result<Vec<Completion>> {
        let address = self.stage.address();
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

    async fn checkpoint(&mut self) -> Result<()> {
        sqlx::query("CHECKPOINT").execute(&mut self.session).await?;
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
    vec![
        target(samples, 1, "p50 ≤ 1.25 × the statement's", |rate| rate.p50_ms, |ratio| ratio <= 1.25),
        target(samples, 16, "≥ 0.7 × the statement's rate", |rate| rate.per_second, |ratio| ratio >= 0.7),
        target(samples, 64, "≥ 1.0 × the statement's rate", |rate| rate.per_second, |ratio| ratio >= 1.0),
    ]
}

/// The ratios of Baton to the statement, each within its round; their median decides.
fn target(samples: &[Sample], clients: u16, claim: &'static str, figure: fn(&Rate) -> f64, is_met: fn(f64) -> bool) -> Target {
    let of = |way: Way| samples.iter().filter(move |sample| sample.clients == clients && sample.way == way);
    let pairs =
        of(Way::Baton).zip(of(Way::Statement)).filter(|(baton, statement)| baton.cpu.is_calm() && statement.cpu.is_calm());
    let ratios: Vec<f64> = pairs.map(|(baton, statement)| figure(&baton.rate) / figure(&statement.rate)).collect();
    let ratio = (!ratios.is_empty()).then(|| Spread::of(ratios.iter().copied()));
    Target { clients, claim, calm_rounds: ratios.len(), ratio, met: ratio.map(|ratio| is_met(ratio.median)) }
}
