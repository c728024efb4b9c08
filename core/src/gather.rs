//! What concurrent callers want written, gathered for whoever writes it: a commit costs the same for one as for sixty.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};

/// What no writer has taken yet. Cheap to clone; clones share everything.
#[derive(Debug)]
pub(crate) struct Waiting<M>(Arc<Mutex<Queue<M>>>);

#[derive(Debug)]
struct Queue<M> {
    receiver: mpsc::Receiver<M>,
    /// Taken, and not for the batch that it was taken for.
    left_over: Option<M>,
}

impl<M> Waiting<M> {
    pub(crate) fn new(receiver: mpsc::Receiver<M>) -> Self {
        Self(Arc::new(Mutex::new(Queue { receiver, left_over: None })))
    }

    /// What is ready, at least one: a batch never waits for company. `joins` says whether the next may be one of a batch. None:
    /// there will be no more.
    pub(crate) async fn batch(&self, mut joins: impl FnMut(&[M], &M) -> bool) -> Option<Vec<M>> {
        let mut queue = self.0.lock().await;
        let first = match queue.left_over.take() {
            Some(member) => member,
            None => queue.receiver.recv().await?,
        };
        let mut batch = vec![first];
        while let Ok(member) = queue.receiver.try_recv() {
            if !joins(&batch, &member) {
                queue.left_over = Some(member);
                break;
            }
            batch.push(member);
        }
        Some(batch)
    }
}

impl<M> Clone for Waiting<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_may_not_join_is_first_in_the_next_batch() {
        let (sender, receiver) = mpsc::channel(8);
        let waiting = Waiting::new(receiver);
        for number in [1, 2, 2, 3] {
            sender.send(number).await.unwrap();
        }
        let distinct = |batch: &[i32], next: &i32| !batch.contains(next);
        assert_eq!(waiting.batch(distinct).await, Some(vec![1, 2]));
        assert_eq!(waiting.clone().batch(|batch, _| batch.is_empty()).await, Some(vec![2]));
        drop(sender);
        assert_eq!(waiting.batch(distinct).await, Some(vec![3]));
        assert_eq!(waiting.batch(distinct).await, None);
    }
}
