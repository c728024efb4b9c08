//! `agentctl artifacts`: the same service that the API's handlers call.

use std::fs::OpenOptions;
use std::io::{Write, stdout};
use std::path::Path;

use futures::StreamExt;

use crate::args::{ArtifactsGet, Global};
use crate::connection::services;
use crate::exit::Failure;
use crate::render;

/// The view with `--json`, else the bytes: whole, or an error.
pub(crate) async fn get(global: &Global, args: ArtifactsGet) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    if global.json {
        return render::json(&services.artifacts.get(&principal, args.artifact).await?);
    }
    let mut bytes = services.artifacts.open(&principal, args.artifact).await?;
    let mut output = output(args.output.as_deref())?;
    let failed = |error: std::io::Error| Failure::unavailable("writing the bytes", &error);
    while let Some(chunk) = bytes.next().await {
        output.write_all(&chunk?).map_err(failed)?;
    }
    output.flush().map_err(failed)
}

fn output(file: Option<&Path>) -> Result<Box<dyn Write>, Failure> {
    let Some(file) = file else { return Ok(Box::new(stdout())) };
    let created = OpenOptions::new().write(true).create_new(true).open(file);
    let created = created.map_err(|error| Failure::unavailable(&format!("the file {}", file.display()), &error))?;
    Ok(Box::new(created))
}
