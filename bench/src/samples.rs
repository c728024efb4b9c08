//! From completions to figures. The same code for pgbench and for HTTP, so that they cannot be counted differently.

use std::time::Duration;

use anyhow::{Result, ensure};

/// The part of a measurement that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

impl Window {
    pub(crate) fn total(self) -> Duration {
        self.warm_up + self.measured
    }
}

/// One thing done, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    /// Since the measurement began, warm-up included.
    pub(crate) at: u64,
    pub(crate) latency: u64,
}

/// What one measurement says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Rate {
    /// Counts what was completed within the window. One that the generator could not fill to its end, as when its connections took
    /// long, ends with the last completion.
    pub(crate) fn of(completions: &[Completion], window: Window) -> Result<Self> {
        let micros = |duration: Duration| duration.as_micros() as u64;
        let begin = micros(window.warm_up);
        let last = completions.iter().map(|completion| completion.at).max().unwrap_or(0);
        let end = last.min(micros(window.total()));
        let counted = completions.iter().filter(|completion| completion.at > begin && completion.at <= end);
        let mut latencies: Vec<u64> = counted.map(|completion| completion.latency).collect();
        ensure!(!latencies.is_empty(), "nothing was completed within the measured time");
        latencies.sort_unstable();
        let seconds = (end - begin) as f64 / 1e6;
        Ok(Self {
            per_second: latencies.len() as f64 / seconds,
            p50_ms: percentile(&latencies, 50) as f64 / 1e3,
            p99_ms: percentile(&latencies, 99) as f64 / 1e3,
        })
    }

    pub(crate) fn figures(self) -> [(&'static str, f64); 3] {
        [("per s", self.per_second), ("p50 ms", self.p50_ms), ("p99 ms", self.p99_ms)]
    }
}

/// The median and the 99th percentile of latencies that are not empty, in milliseconds.
pub(crate) fn percentiles_ms(latencies: &[Duration]) -> [f64; 2] {
    let mut sorted: Vec<u64> = latencies.iter().map(|latency| latency.as_micros() as u64).collect();
    sorted.sort_unstable();
    [50, 99].map(|percent| percentile(&sorted, percent) as f64 / 1e3)
}

/// Nearest rank, of sorted values that are not empty.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}

/// The repetitions of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of values that are not empty; the lower of the two in the middle where their number is even.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Self { median: sorted[(sorted.len() - 1) / 2], min: sorted[0], max: sorted[sorted.len() - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { warm_up: Duration::from_secs(1), measured: Duration::from_secs(2) };

    #[test]
    fn only_the_window_counts() {
        let every_10_ms =
            (1..=400).map(|turn| Completion { at: turn * 10_000, latency: if turn <= 100 { 9_000_000 } else { turn } });
        let rate = Rate::of(&every_10_ms.collect::<Vec<_>>(), WINDOW).unwrap();
        assert_eq!((rate.per_second, rate.p50_ms, rate.p99_ms), (100.0, 0.2, 0.298));
    }

    #[test]
    fn a_window_that_ends_early_is_shorter() {
        let half = (1..=200).map(|turn| Completion { at: turn * 10_000, latency: 1 });
        assert_eq!(Rate::of(&half.collect::<Vec<_>>(), WINDOW).unwrap().per_second, 100.0);
        assert!(Rate::of(&[], WINDOW).is_err());
    }

    #[test]
    fn the_median_is_one_of_the_values() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0]).median, 1.0);
    }
}
