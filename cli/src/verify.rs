//! Whether a run's stream brings every stored event exactly once, over connections that are cut at random. It is a client like
//! any other: all that it knows comes over HTTP, the events from the stream and what is stored from pages of the log.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::runs::{RunStatus, WaitingFor};
use futures::StreamExt;
use rand::Rng;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::client::{Client, SILENCE_MAX, WAIT};
use crate::exit::{Exit, Failure};
use crate::note::note;

/// A cut connection has brought less than this, and most of them far less: from a few bytes of the opening to several frames.
const BYTES_MAX: usize = 8 * 1024;

/// What came of it. Every list holds sequences.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    run_id: Uuid,
    exactly_once: bool,
    /// Stored events of the run.
    events: usize,
    /// How often the run was followed from its first event to its end.
    passes: u32,
    connections: u32,
    cuts: u32,
    cuts_inside_frames: u32,
    missing: BTreeSet<i64>,
    repeated: BTreeSet<i64>,
    out_of_order: BTreeSet<i64>,
    /// They came, and are not stored.
    unknown: BTreeSet<i64>,
    /// What came is not what is stored.
    different: BTreeSet<i64>,
}

/// What a run that waits for a person means here.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Waits {
    /// Somebody sees that it does, and can do something about it.
    ForPeople,
    /// A script, which must not hang until then.
    ForNobody,
}

/// Follows the run to its end with so many cuts; again from its start where it is shorter.
pub(crate) async fn verify(client: &Client, run_id: Uuid, cuts: u32, waits: Waits) -> Result<Report, Failure> {
    let mut report = Report::new(run_id);
    let mut stored = None;
    loop {
        let received = Pass { client, cuts, waits, report: &mut report, received: Vec::new() }.follow().await?;
        let stored = match &stored {
            Some(stored) => stored,
            None => stored.insert(read(client, run_id).await?), // the run has ended: this is all
        };
        report.compare(stored, &received);
        if report.cuts >= cuts || !report.exactly_once {
            return Ok(report);
        }
    }
}

/// A stored event: its sequence, and its data as text.
type Event = (i64, String);

async fn read(client: &Client, run_id: Uuid) -> Result<Vec<Event>, Failure> {
    #[derive(Deserialize)]
    struct Head {
        sequence: i64,
    }
    let events = client.stored(run_id).await?.into_iter().map(|data| {
        let head: Head = serde_json::from_str(data.get())
            .map_err(|error| Failure::new(Exit::FailedRun, format!("an event of the log is not one: {error}")))?;
        Ok((head.sequence, data.get().to_owned()))
    });
    events.collect()
}

/// From the first event of the run to its end.
struct Pass<'a> {
    client: &'a Client,
    cuts: u32,
    waits: Waits,
    report: &'a mut Report,
    received: Vec<Event>,
}

impl Pass<'_> {
    async fn follow(mut self) -> Result<Vec<Event>, Failure> {
        while !self.connection().await? {}
        Ok(self.received)
    }

    /// True: there will be no more.
    async fn connection(&mut self) -> Result<bool, Failure> {
        let cursor = self.received.last().map_or(0, |(sequence, _)| *sequence);
        let Some(response) = self.client.open(self.report.run_id, cursor).await? else { return Ok(true) };
        self.report.connections += 1;
        let cut = (self.report.cuts < self.cuts).then(Cut::random);
        let (mut chunks, mut bytes, mut whole) = (response.bytes_stream(), Vec::new(), 0);
        while let Ok(Some(Ok(chunk))) = tokio::time::timeout(SILENCE_MAX, chunks.next()).await {
            bytes.extend_from_slice(&chunk);
            // Of a chunk with the end of several frames only those count that came before the cut.
            let arrived = if let Some(Cut::Inside(after)) = cut { bytes.len().min(after) } else { bytes.len() };
            while let Some(end) = bytes[whole..arrived].windows(2).position(|pair| pair == b"\n\n") {
                let frame = String::from_utf8_lossy(&bytes[whole..whole + end]).into_owned();
                whole += end + 2;
                match self.take(&frame) {
                    Next::Go => {}
                    Next::Waits => self.say_what_it_waits_for().await?,
                    Next::Stop => return Ok(true),
                }
                if matches!(cut, Some(Cut::Between(after)) if whole >= after) {
                    return Ok(self.is_cut(0));
                }
            }
            if matches!(cut, Some(Cut::Inside(after)) if arrived == after) {
                return Ok(self.is_cut(arrived - whole));
            }
        }
        tokio::time::sleep(WAIT).await; // an end that is neither the run's nor ours: resume, though not at once
        Ok(false)
    }

    /// Takes a whole frame.
    fn take(&mut self, frame: &str) -> Next {
        let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        if let Ok(sequence) = field("id: ").parse() {
            self.received.push((sequence, field("data: ").to_owned()));
        }
        match field("event: ") {
            "run.waiting_for_approval" | "run.waiting_for_user" => Next::Waits,
            "run.completed" | "run.failed" | "run.cancelled" => Next::Stop,
            _ => Next::Go,
        }
    }

    /// The event may be an old one: what counts is what the run waits for now.
    async fn say_what_it_waits_for(&self) -> Result<(), Failure> {
        let status = match self.client.waiting_for(self.report.run_id).await? {
            Some(WaitingFor::Approval { .. }) => RunStatus::WaitingForApproval,
            Some(WaitingFor::User { .. }) => RunStatus::WaitingForUser,
            None => return Ok(()),
        };
        let why = self.client.hints.why(self.report.run_id);
        let waits = format!("the run waits for a person ({status}), `{why}` says for what: nothing is proved before its end");
        match self.waits {
            Waits::ForPeople => note!("! {waits}; still following"),
            Waits::ForNobody => return Err(Failure::new(Exit::Waiting, waits)),
        }
        Ok(())
    }

    /// The connection is cut here, with so many bytes of a frame that is not whole. False: there may be more.
    fn is_cut(&mut self, rest: usize) -> bool {
        self.report.cuts += 1;
        self.report.cuts_inside_frames += u32::from(rest > 0);
        false
    }
}

/// What follows a frame.
enum Next {
    Go,
    /// The run waits for a person, or did.
    Waits,
    /// The run has ended.
    Stop,
}

/// Where a connection is cut, in bytes.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Inside(usize),
    /// After the frame that holds this byte.
    Between(usize),
}

impl Cut {
    /// As often after some bytes as after some thousands.
    fn random() -> Self {
        let mut random = rand::rng();
        let most = BYTES_MAX >> random.random_range(0..=9);
        let after = random.random_range(1..=most);
        if random.random() { Self::Inside(after) } else { Self::Between(after) }
    }
}

impl Report {
    fn new(run_id: Uuid) -> Self {
        Self {
            run_id,
            exactly_once: true,
            events: 0,
            passes: 0,
            connections: 0,
            cuts: 0,
            cuts_inside_frames: 0,
            missing: BTreeSet::new(),
            repeated: BTreeSet::new(),
            out_of_order: BTreeSet::new(),
            unknown: BTreeSet::new(),
            different: BTreeSet::new(),
        }
    }

    /// Adds what is wrong with a pass.
    fn compare(&mut self, stored: &[Event], received: &[Event]) {
        self.passes += 1;
        self.events = stored.len();
        let mut missing: BTreeMap<i64, &str> = stored.iter().map(|(sequence, data)| (*sequence, data.as_str())).collect();
        let mut seen = BTreeSet::new();
        for (sequence, data) in received {
            if seen.last().is_some_and(|last| sequence < last) {
                self.out_of_order.insert(*sequence);
            }
            if !seen.insert(*sequence) {
                self.repeated.insert(*sequence);
                continue;
            }
            match missing.remove(sequence) {
                Some(expected) if expected == data => {}
                Some(_) => _ = self.different.insert(*sequence),
                None => _ = self.unknown.insert(*sequence),
            }
        }
        self.missing.extend(missing.keys());
        self.exactly_once = self.violations().iter().all(|(_, sequences)| sequences.is_empty());
    }

    fn violations(&self) -> [(&'static str, &BTreeSet<i64>); 5] {
        [
            ("missing", &self.missing),
            ("repeated", &self.repeated),
            ("out of order", &self.out_of_order),
            ("not stored", &self.unknown),
            ("different from what is stored", &self.different),
        ]
    }

    /// For a person: what was done.
    pub(crate) fn lines(&self) -> String {
        let Self { run_id, events, passes, connections, cuts, cuts_inside_frames, .. } = self;
        format!(
            "run {run_id}: {events} stored events{}\nfollowed {passes}× over {connections} connections; {cuts} cut, {cuts_inside_frames} of them inside a frame",
            if self.exactly_once { ", each exactly once and in order" } else { "" },
        )
    }

    /// # Errors
    /// What is wrong, if anything is.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        /// More than that is for `--json`.
        const NAMED_MAX: usize = 10;
        if self.exactly_once {
            return Ok(());
        }
        let wrong = self.violations().into_iter().filter(|(_, sequences)| !sequences.is_empty()).map(|(what, sequences)| {
            let named: Vec<String> = sequences.iter().take(NAMED_MAX).map(ToString::to_string).collect();
            let more = if sequences.len() > NAMED_MAX { ", …" } else { "" };
            format!("{} {what} ({}{more})", sequences.len(), named.join(", "))
        });
        let wrong: Vec<String> = wrong.collect();
        Err(Failure::new(Exit::FailedRun, format!("the stream does not bring every event exactly once: {}", wrong.join("; "))))
    }
}

#[cfg(test)]
mod tests;
