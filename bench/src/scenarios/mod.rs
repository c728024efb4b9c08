//! What is measured, one file each.

pub(crate) mod submit;

pub(crate) use submit::SEGMENTS_PER_ROUND;
