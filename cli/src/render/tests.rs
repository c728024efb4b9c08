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
fn a_list_shows_how_a_long_text_begins() {
    assert_eq!(shortened(&"ä".repeat(60)), "ä".repeat(60));
    assert_eq!(shortened(&"ä".repeat(61)), "ä".repeat(60) + "…");
}
