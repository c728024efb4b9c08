//! Where one call puts bytes.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::artifacts::{NewArtifact, media};
use crate::canonical;
use crate::error::chain;
use crate::tools::ReasonCode;

/// Of one artifact: what a person still downloads at once. A run that loops fills a disk by this and no faster.
pub const ARTIFACT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Of what is hashed and handed on at once: a large chunk must not occupy a thread for long.
const PIECE_BYTES: usize = 256 * 1024;

/// Parts on their way to the store at once. With their size of 5 MiB, the smallest that remote stores take, this bounds the
/// memory of a writer.
const PARTS_MAX: usize = 2;

/// Puts the bytes of one call where its identifiers say. The same call writes the same object again.
#[derive(Debug)]
pub struct ArtifactWriter {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) key: Path,
    pub(super) id: Uuid,
}

impl ArtifactWriter {
    /// Stores the bytes, all or nothing; dropped before the end, or failed, it leaves nothing that can be read.
    ///
    /// # Errors
    /// `ArtifactInvalid` for a name or media type that is none, `ToolOutputTooLarge`, `ArtifactStorageError`.
    pub async fn put(
        &self,
        name: &str,
        media_type: &str,
        chunks: impl Stream<Item = Bytes> + Send,
    ) -> Result<NewArtifact, ReasonCode> {
        if !media::is_name(name) || !media::is_media_type(media_type) {
            return Err(ReasonCode::ArtifactInvalid);
        }
        let (sha256, size_bytes) = self.store(chunks).await?;
        Ok(NewArtifact { id: self.id, name: name.to_owned(), media_type: media_type.to_owned(), sha256, size_bytes })
    }

    /// As [`ArtifactWriter::put`], of bytes that are all there.
    ///
    /// # Errors
    /// As [`ArtifactWriter::put`].
    pub async fn put_bytes(&self, name: &str, media_type: &str, bytes: Bytes) -> Result<NewArtifact, ReasonCode> {
        self.put(name, media_type, stream::iter([bytes])).await
    }

    /// The hash of the bytes and their number. Dropping the upload takes away what it has written so far.
    async fn store(&self, chunks: impl Stream<Item = Bytes> + Send) -> Result<(String, i64), ReasonCode> {
        let upload = self.objects.put_multipart(&self.key).await.map_err(|error| self.failed(&error))?;
        let mut upload = WriteMultipart::new(upload);
        let mut hasher = Sha256::new();
        let mut size: u64 = 0;
        let mut chunks = pin!(chunks);
        while let Some(mut chunk) = chunks.next().await {
            size = size.saturating_add(chunk.len() as u64);
            if size > ARTIFACT_BYTES_MAX {
                upload.abort().await.map_err(|error| self.failed(&error))?;
                return Err(ReasonCode::ToolOutputTooLarge);
            }
            while !chunk.is_empty() {
                let piece = chunk.split_to(chunk.len().min(PIECE_BYTES));
                hasher.update(&piece);
                upload.wait_for_capacity(PARTS_MAX).await.map_err(|error| self.failed(&error))?;
                upload.write(&piece);
                tokio::task::yield_now().await;
            }
        }
        upload.finish().await.map_err(|error| self.failed(&error))?;
        let size = i64::try_from(size).expect("the largest artifact is far below 2^63 bytes");
        Ok((canonical::hex(&hasher.finalize()), size))
    }

    /// The cause is for operators; a model learns that it did not work.
    fn failed(&self, error: &object_store::Error) -> ReasonCode {
        tracing::warn!(artifact_id = %self.id, error = chain(error), "an artifact was not stored");
        ReasonCode::ArtifactStorageError
    }
}
