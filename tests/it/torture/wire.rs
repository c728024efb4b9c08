//! The wire between the product and the database, which now and then is cut: after a request, so that the statement goes on
//! without anybody who waits for it, or before an answer, so that what was committed is not known to be.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::world::{Stage, World};

/// Of all pieces that go by; a statement is one piece each way, and the first of a connection a few more.
const CUT_AFTER_REQUEST: f64 = 0.004;
const CUT_BEFORE_ANSWER: f64 = 0.006;

const PIECE_BYTES_MAX: usize = 64 * 1024;

/// A socket of its own, in a folder that goes with it.
#[derive(Debug)]
pub(super) struct LossyWire {
    url: String,
    _folder: TempDir,
}

impl LossyWire {
    /// Leads to the same database as `url`.
    pub(super) fn open(world: &Arc<World>, url: &str) -> Self {
        let server: PgConnectOptions = url.parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(socket(folder.path(), server.get_port())).unwrap();
        let url = format!(
            "postgres://postgres@localhost:{}/{}?host={}",
            server.get_port(),
            server.get_database().unwrap(),
            folder.path().display()
        );
        tokio::spawn(accept(Arc::clone(world), listener, socket(server.get_socket().unwrap(), server.get_port())));
        Self { url, _folder: folder }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

fn socket(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

async fn accept(world: Arc<World>, listener: UnixListener, server: PathBuf) {
    while let Ok((client, _)) = listener.accept().await {
        let (world, server) = (Arc::clone(&world), server.clone());
        tokio::spawn(async move {
            let Ok(server) = UnixStream::connect(server).await else { return };
            let _ = relay(&world, client, server).await; // a broken wire is what this is about
        });
    }
}

async fn relay(world: &World, mut client: UnixStream, mut server: UnixStream) -> io::Result<()> {
    let mut rng = world.rng();
    let (mut request, mut answer) = (vec![0; PIECE_BYTES_MAX], vec![0; PIECE_BYTES_MAX]);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let bytes = read?;
                server.write_all(&request[..bytes]).await?;
                if bytes == 0 || is_cut(world, &mut rng, CUT_AFTER_REQUEST, "requests lost") {
                    return Ok(());
                }
            }
            read = server.read(&mut answer) => {
                let bytes = read?;
                if bytes == 0 || is_cut(world, &mut rng, CUT_BEFORE_ANSWER, "answers lost") {
                    return Ok(());
                }
                client.write_all(&answer[..bytes]).await?;
            }
        }
    }
}

fn is_cut(world: &World, rng: &mut StdRng, probability: f64, what: &str) -> bool {
    let cut = world.stage() == Stage::Torture && rng.random_bool(probability);
    if cut {
        world.count(what);
    }
    cut
}
