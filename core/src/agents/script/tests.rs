use super::*;

#[test]
fn placeholders_are_replaced() {
    let value = |name: &str| (name == "a").then(|| "1".to_owned());
    for (text, expected) in [
        ("", ""),
        ("x", "x"),
        ("${a}", "1"),
        ("<${a}${a}>", "<11>"),
        ("${unknown}", ""),
        ("${open", "${open"),
        ("$a {a}", "$a {a}"),
    ] {
        assert_eq!(Template(text).render(value), expected, "{text}");
    }
}

fn problems(text: &str) -> Vec<String> {
    toml::from_str::<Script>(text).unwrap().problems(0).into_iter().map(|problem| problem.path).collect()
}

#[test]
fn an_unknown_placeholder_is_an_error_wherever_it_stands() {
    assert_eq!(problems("match = '(?<a>.)'\nturn = [{ text = '${a} ${input} ${answer} ${result.x}' }]"), Vec::<String>::new());
    for turn in [
        "text = '${b}'",
        "reasoning = '${b}'",
        "tool_calls = [{ name = 't', arguments = { x = ['${b}'] } }]",
        "tool_calls = [{ name = 't', raw_arguments = '${result.}' }]",
    ] {
        assert_eq!(problems(&format!("match = '(?<a>.)'\nturn = [{{ {turn} }}]")), ["/script/0/turn/0"], "{turn}");
    }
    assert_eq!(problems("match = '('"), ["/script/0/match"]);
}
