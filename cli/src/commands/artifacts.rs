//! `agentctl artifacts`: the same service that the API's handlers call.

use std::fs::OpenOptions;
use std::io::{Write, stdout};
use std::path::Path;

use baton_core::artifacts::ArtifactBytes;
use futures::StreamExt;

use crate::args::{ArtifactsGet, Global};
use crate::connection::services;
use crate::exit::{Exit, Failure};
use crate::render;

/// The view with `--json`, else the bytes: whole, or an error.
pub(crate) async fn get(global: &Global, args: ArtifactsGet) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    if global.json {
        return render::json(&services.artifacts.get(&principal, args.artifact).await?);
    }
    let mut bytes = services.artifacts.open(&principal, args.artifact).await?;
    let mut output = output(args.output.as_deref())?;
    let written = write(&mut bytes, &mut output).await;
    if let (Err(_), Some(file)) = (&written, &args.output) {
        let _ = std::fs::remove_file(file); // half of an artifact is none
    }
    written
}

async fn write(bytes: &mut ArtifactBytes, output: &mut impl Write) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(Exit::FailedRun, format!("the bytes cannot be written: {error}"));
    while let Some(chunk) = bytes.next().await {
        output.write_all(&chunk?).map_err(failed)?;
    }
    output.flush().map_err(failed)
}

fn output(file: Option<&Path>) -> Result<Box<dyn Write>, Failure> {
    let Some(file) = file else { return Ok(Box::new(stdout())) };
    let created = OpenOptions::new().write(true).create_new(true).open(file);
    let refused =
        |error| Failure::usage(format!("`{}` cannot be created: {error}; name a file that does not exist", file.display()));
    Ok(Box::new(created.map_err(refused)?))
}
