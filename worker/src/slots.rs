//! Slots: how many runs of each class are executed at once. They are waits, not threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::config;
use baton_core::execution::Room;
use baton_core::runs::Priority;
use tokio::sync::Notify;

/// Free slots. The floor of a class is never lent; shared slots are open to all.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    free: Arc<Mutex<Room>>,
    /// A slot has become free.
    freed: Arc<Notify>,
}

/// A taken slot; free again when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    /// None: a shared one.
    floor: Option<usize>,
}

impl Slots {
    pub(crate) fn new(config: config::Slots) -> Self {
        let room = Room {
            floors: [config.interactive, config.r#async, config.maintenance].map(i32::from),
            shared: i32::from(config.shared),
        };
        Self { free: Arc::new(Mutex::new(room)), freed: Arc::default() }
    }

    pub(crate) fn room(&self) -> Room {
        *self.free()
    }

    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Takes what a claim gave: the floor of the class first, then a shared slot, as the claim counted.
    pub(crate) fn take(&self, priority: Priority) -> Slot {
        let class = priority as usize;
        let mut free = self.free();
        let floor = if free.floors[class] > 0 {
            free.floors[class] -= 1;
            Some(class)
        } else {
            free.shared -= 1;
            None
        };
        Slot { slots: self.clone(), floor }
    }

    fn free(&self) -> MutexGuard<'_, Room> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut free = self.slots.free();
        match self.floor {
            Some(class) => free.floors[class] += 1,
            None => free.shared += 1,
        }
        drop(free);
        self.slots.freed.notify_one();
    }
}
