use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use sqlx::PgPool;
use tempfile::TempDir;

use super::*;
use crate::canonical;
use crate::clock::Clock;
use crate::config;
use crate::tools::ReasonCode;

const SESSION: Uuid = Uuid::from_u128(7);
const ID: Uuid = Uuid::from_u128(8);

fn open(clock: &Clock) -> (TempDir, ArtifactStore) {
    let folder = TempDir::new().unwrap();
    let config = config::Artifacts { folder: folder.path().join("of/artifacts") };
    let store = ArtifactStore::open(&config, clock.clone()).unwrap();
    (folder, store)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files
}

async fn wait_until_empty(folder: &Path) {
    let empty = async {
        while !files(folder).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), empty).await.expect("what was written is taken away");
}

async fn put(store: &ArtifactStore, name: &str, media_type: &str) -> Result<NewArtifact, ReasonCode> {
    store.writer("tenant", SESSION, ID).put_bytes(name, media_type, Bytes::from_static(b"bytes")).await
}

/// Long enough for more than one part, and of chunks that do not fit parts.
fn long() -> (Vec<Bytes>, String) {
    let whole: Vec<u8> = (0..7_000_000_u32).map(|index| u8::try_from(index % 251).unwrap()).collect();
    let chunks: Vec<Bytes> = whole.chunks(999_983).map(Bytes::copy_from_slice).collect();
    let sha256 = canonical::hex(&<sha2::Sha256 as sha2::Digest>::digest(&whole));
    (chunks, sha256)
}

#[tokio::test]
async fn bytes_come_back_as_they_went_and_are_hashed_on_the_way() {
    let (folder, store) = open(&Clock::system());
    let (chunks, sha256) = long();
    let artifact = store.writer("tenant", SESSION, ID).put("a.bin", "application/x", stream::iter(chunks.clone())).await.unwrap();
    let expected = NewArtifact {
        id: ID,
        name: "a.bin".into(),
        media_type: "application/x".into(),
        sha256: sha256.clone(),
        size_bytes: 7_000_000,
    };
    assert_eq!(artifact, expected);
    let read: Vec<Bytes> = store.read("tenant", SESSION, ID, &sha256).await.unwrap().try_collect().await.unwrap();
    assert_eq!(read.concat(), chunks.concat());
    // The key says nothing that somebody chose.
    let tenant = &canonical::sha256_hex("tenant")[..16];
    let place = folder.path().canonicalize().unwrap().join(format!("of/artifacts/{tenant}/{SESSION}/{ID}"));
    assert_eq!(files(&folder.path().canonicalize().unwrap()), [place]);
    // Another tenant's question leads elsewhere.
    assert!(store.read("other", SESSION, ID, &sha256).await.is_err());
}

#[tokio::test]
async fn nothing_is_an_artifact_too() {
    let (_folder, store) = open(&Clock::system());
    let artifact = store.writer("tenant", SESSION, ID).put_bytes("empty", "text/plain", Bytes::new()).await.unwrap();
    assert_eq!((artifact.size_bytes, &artifact.sha256), (0, &canonical::sha256_hex("")));
    assert_eq!(store.read("tenant", SESSION, ID, &artifact.sha256).await.unwrap().count().await, 0);
}

#[tokio::test]
async fn bytes_that_were_changed_come_short_and_end_with_an_error() {
    let (folder, store) = open(&Clock::system());
    let (chunks, sha256) = long();
    store.writer("tenant", SESSION, ID).put("a", "a/b", stream::iter(chunks.clone())).await.unwrap();
    let mut bytes = chunks.concat();
    bytes[3] ^= 1;
    std::fs::write(&files(folder.path())[0], &bytes).unwrap();
    let read: Vec<_> = store.read("tenant", SESSION, ID, &sha256).await.unwrap().collect().await;
    let (last, before) = read.split_last().unwrap();
    assert!(last.is_err() && before.iter().all(Result::is_ok));
    assert!(before.iter().map(|chunk| chunk.as_ref().unwrap().len()).sum::<usize>() < bytes.len());
}

#[tokio::test]
async fn what_is_too_large_or_dropped_in_the_middle_leaves_nothing() {
    let (folder, store) = open(&Clock::system());
    let writer = store.writer("tenant", SESSION, ID);
    let most = Bytes::from(vec![0; usize::try_from(ARTIFACT_BYTES_MAX).unwrap()]);
    let too_large = stream::iter([Bytes::from(vec![0; 6_000_000]), most]);
    assert_eq!(writer.put("a", "a/b", too_large).await, Err(ReasonCode::ToolOutputTooLarge));
    wait_until_empty(folder.path()).await;

    let endless = stream::iter([Bytes::from(vec![0; 6_000_000])]).chain(stream::pending());
    {
        let mut put = std::pin::pin!(writer.put("a", "a/b", endless));
        while files(folder.path()).is_empty() {
            assert!(futures::poll!(&mut put).is_pending());
        }
    }
    wait_until_empty(folder.path()).await;
}

#[tokio::test]
async fn names_and_media_types_that_are_none_are_refused() {
    let (folder, store) = open(&Clock::system());
    let long_name = "\u{e9}".repeat(256);
    for name in ["", ".", "..", "a/b", "a\\b", "a\"b", "a\nb", "a\u{85}b", "a\0", &long_name] {
        assert_eq!(put(&store, name, "text/plain").await, Err(ReasonCode::ArtifactInvalid), "{name:?}");
    }
    let long_type = format!("text/{}", "a".repeat(251));
    for media_type in [
        "",
        "text",
        "text/",
        "/plain",
        "text/plain/x",
        "text/pl ain",
        "text/plain;",
        "text/plain; a",
        "text/plain; a=",
        " text/plain",
        "text/plain; a=\"",
        "text/plain; a=\"b;c\"",
        "text/plain\r\nX: y",
        "text/plain; a=\u{e9}",
        &long_type,
    ] {
        assert_eq!(put(&store, "a", media_type).await, Err(ReasonCode::ArtifactInvalid), "{media_type:?}");
    }
    assert!(files(folder.path()).is_empty());
    let media_types = ["text/plain", "text/plain; charset=utf-8", "image/svg+xml;a=\"b c\"; d=e", "application/vnd.x-y.z"];
    for (name, media_type) in ["a", "\u{e9} (1).txt", "...", &long_name[..510]].into_iter().zip(media_types) {
        put(&store, name, media_type).await.unwrap();
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = config::Artifacts { folder: file.path().join("artifacts") };
    let error = ArtifactStore::open(&config, Clock::system()).unwrap_err();
    assert!(error.to_string().contains(&config.folder.display().to_string()), "{error}");
}

#[tokio::test]
async fn what_is_young_or_not_ours_is_not_even_asked_for_and_killed_uploads_go() {
    let clock = Clock::manual(Clock::system().now());
    let (folder, store) = open(&clock);
    let nowhere = PgPool::connect_lazy("postgres://127.0.0.1:1/none").unwrap();
    let collect = || store.collect_orphans(&nowhere, ORPHAN_AGE_MIN, ORPHAN_BATCH_MAX);
    put(&store, "a", "text/plain").await.unwrap();
    let artifact = files(folder.path()).remove(0);
    let partial = artifact.with_file_name(format!("{ID}#1"));
    std::fs::write(&partial, b"half").unwrap();
    assert_eq!(collect().await.unwrap(), 0);
    assert!(artifact.exists() && partial.exists());

    std::fs::remove_file(&artifact).unwrap();
    let foreign =
        [artifact.with_file_name("notes.txt"), artifact.with_file_name("notes#1"), folder.path().join("of/artifacts/x")];
    for foreign in &foreign {
        std::fs::write(foreign, b"mine").unwrap();
    }
    clock.advance(ORPHAN_AGE_MIN * 2);
    assert_eq!(collect().await.unwrap(), 0);
    assert!(foreign.iter().all(|foreign| foreign.exists()) && !partial.exists());
}
