//! Lines for people, on stderr. Whether somebody still reads there changes nothing.

/// As `eprintln!`, which panics where stderr has gone.
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

pub(crate) use note;
