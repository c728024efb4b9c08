use super::*;
use crate::models::tests::tool;

#[test]
fn every_name_comes_back() {
    let long: &'static str = Box::leak("mcp.server.".repeat(11).into_boxed_str());
    let tools = ["math.calculate", "a.b", "a_b", "a-b", long].map(tool);
    let names = ToolNames::new(&tools);
    let theirs: Vec<String> = tools.iter().map(|tool| names.theirs(tool.name)).collect();
    for (tool, theirs) in tools.iter().zip(&theirs) {
        assert!(
            (1..=64).contains(&theirs.len()) && theirs.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        );
        assert_eq!(names.ours(theirs), tool.name);
    }
    assert_eq!((theirs[0].as_str(), theirs[2].as_str()), ("math_calculate", "a_b"));
    assert_eq!(names.ours("made.up"), "made.up");
    assert_eq!(names.theirs("gone.tool"), "gone_tool");
}
