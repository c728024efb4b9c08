use super::*;

#[test]
fn what_a_person_decides_by_cannot_hide() {
    for (text, shown) in [
        ("{\"content\":\"Räksmörgås \u{1f44b}\"}", "{\"content\":\"Räksmörgås \u{1f44b}\"}"),
        ("one\n  risk low", "one\\u000a  risk low"),
        ("a\u{9b}2Kb\u{1b}[2Kc\rd", "a\\u009b2Kb\\u001b[2Kc\\u000dd"),
        ("safe\u{202e}txt.exe\u{200b}\u{feff}", "safe\\u202etxt.exe\\u200b\\ufeff"),
    ] {
        assert_eq!(visible(text), shown);
    }
}

#[test]
fn a_text_keeps_its_lines_and_loses_what_a_terminal_obeys() {
    let family = "\u{1f468}\u{200d}\u{1f469} שלום\u{200f}";
    assert_eq!(harmless(&format!("one\n\ttwo {family}")), format!("one\n\ttwo {family}"));
    assert_eq!(harmless("a\u{1b}[2J\rb\u{9b}c\u{7f}"), "a\\u001b[2J\\u000db\\u009bc\\u007f");
}

#[test]
fn a_list_shows_how_a_long_text_begins() {
    assert_eq!(shortened(&"ä".repeat(60)), "ä".repeat(60));
    assert_eq!(shortened(&"ä".repeat(61)), "ä".repeat(60) + "…");
}
