//! The keyboard of the person at the terminal, a line at a time.

use std::io::{BufRead, stdin};

use nix::sys::termios::{FlushArg, tcflush};
use tokio::sync::oneshot;

/// One read is under way at most: a second one would take every other line.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    reading: Option<oneshot::Receiver<Option<String>>>,
}

impl Keyboard {
    /// A line; None at its end (Ctrl-D). Whoever stops waiting leaves the read to the next question.
    pub(super) async fn line(&mut self) -> Option<String> {
        let line = self.reading.get_or_insert_with(read_line).await;
        self.reading = None;
        line.ok().flatten()
    }

    /// What was typed before a question stood there does not answer it.
    pub(super) fn forget_what_was_typed(&mut self) {
        let _ = tcflush(stdin(), FlushArg::TCIFLUSH); // not a terminal: then nobody is asked
        self.reading.take_if(|reading| reading.try_recv().is_ok());
    }
}

/// In a thread of its own, which the process does not wait for when it is interrupted, as it would for one of the runtime's.
fn read_line() -> oneshot::Receiver<Option<String>> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = Vec::new();
        let read = stdin().lock().read_until(b'\n', &mut line);
        // Whoever asked may be gone.
        let _ = sender.send(read.is_ok_and(|bytes| bytes > 0).then(|| String::from_utf8_lossy(&line).into_owned()));
    });
    receiver
}
