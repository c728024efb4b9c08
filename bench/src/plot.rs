//! One picture of all targets: how far from its bound each was seen.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use plotters::prelude::*;
use serde::Deserialize;

use crate::report::Target;

/// In pixels.
const WIDTH: u32 = 1_000;
const ROW_HEIGHT: u32 = 24;
const MARGIN: u32 = 16;
const CLAIM_WIDTH: u32 = 520;
const SCALE_HEIGHT: u32 = 40;
const DOT: u32 = 5;

/// Times better than the bound that the scale shows; what is beyond is drawn at its end.
const WORST: f64 = 0.1;
const BEST: f64 = 30.0;

const MET: RGBColor = RGBColor(0x2a, 0x7f, 0x4f);
const MISSED: RGBColor = RGBColor(0xb3, 0x3a, 0x3a);

/// As [`crate::report::publish`] has written it.
#[derive(Debug, Deserialize)]
struct Published {
    title: String,
    targets: Vec<Target>,
}

/// A row for each target, a dot for each round: filled where the round was calm. Right of one is met. It is drawn of what is
/// published: a scenario that is measured again takes the place of what it was.
pub(crate) fn targets(published: &[PathBuf], file: &Path) -> Result<()> {
    let mut rows = Vec::new();
    for path in published.iter().filter(|path| path.exists()) {
        let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let Published { title, targets } =
            serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
        rows.extend(targets.into_iter().map(|target| (format!("{title}: {}", target.claim), target)));
    }
    rows.retain(|(_, target)| !target.seen.is_empty());
    draw(&rows, file).map_err(|error| anyhow::anyhow!("{error}")).with_context(|| format!("drawing {}", file.display()))
}

fn draw(rows: &[(String, Target)], file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let height = ROW_HEIGHT * rows.len() as u32 + SCALE_HEIGHT + 2 * MARGIN;
    let area = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let lines = 0.0..rows.len() as f64;
    let mut chart = ChartBuilder::on(&area)
        .margin(MARGIN)
        .x_label_area_size(SCALE_HEIGHT)
        .y_label_area_size(CLAIM_WIDTH)
        .build_cartesian_2d((WORST..BEST).log_scale(), lines.clone())?;
    chart.configure_mesh().disable_y_mesh().y_labels(0).x_desc("times better than the bound").draw()?;
    chart.draw_series([PathElement::new([(1.0, lines.start), (1.0, lines.end)], BLACK)])?;
    for (index, (claim, target)) in rows.iter().enumerate() {
        let y = (rows.len() - index) as f64 - 0.5;
        let claim_at = (MARGIN as i32, (MARGIN + ROW_HEIGHT * index as u32 + ROW_HEIGHT / 4) as i32);
        area.draw(&Text::new(claim.clone(), claim_at, ("sans-serif", 13)))?;
        chart.draw_series(target.seen.iter().map(|seen| {
            let advantage = seen.advantage(target.bound);
            let color = if advantage >= 1.0 { MET } else { MISSED };
            Circle::new((advantage.clamp(WORST, BEST), y), DOT, ShapeStyle { filled: seen.calm, ..color.into() })
        }))?;
    }
    area.present()?;
    Ok(())
}
