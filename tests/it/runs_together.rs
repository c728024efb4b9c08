//! Submissions that come at once: stored together, and each answered as if it had been alone.
