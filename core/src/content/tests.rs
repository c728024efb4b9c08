use super::*;

#[test]
fn case_j3_a_text_is_cut_between_characters_only() {
    let text = "\u{1f980}\"\u{e9}\n\u{1f600}\u{1}x\u{6771}";
    for bytes_max in 0..=64 {
        let (head, is_cut) = fit(text, bytes_max);
        let tail = fit_end(text, bytes_max);
        assert!(text.starts_with(head) && text.ends_with(tail), "{bytes_max}");
        assert_eq!(is_cut, head.len() < text.len(), "{bytes_max}");
        for part in [head, tail] {
            let written = serde_json::to_string(part).unwrap().len() - 2;
            assert!(written <= bytes_max, "{part:?} takes {written} of {bytes_max}");
        }
        if let Some(next) = text[head.len()..].chars().next() {
            let more = serde_json::to_string(&format!("{head}{next}")).unwrap().len() - 2;
            assert!(more > bytes_max, "one more would fit into {bytes_max}");
        }
    }
}
