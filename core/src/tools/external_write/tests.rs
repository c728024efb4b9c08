use uuid::Uuid;

use super::*;
use crate::tools::tests::{Marks, World};

#[tokio::test]
async fn each_call_is_one_line_with_its_key() {
    let world = World::new();
    for content in ["a\nb", "\u{fc}\"", ""] {
        let arguments = json!({"content": content});
        let (answer, _) = world.call("demo.external_write", &arguments, &world.writer(Uuid::nil()), Marks::Recorded).await;
        assert_eq!(answer, Ok(ToolAnswer::value(json!({"written": true}))));
    }
    let lines = "{\"content\":\"a\\nb\",\"key\":\"key\"}\n{\"content\":\"\u{fc}\\\"\",\"key\":\"key\"}\n{\"content\":\"\",\"key\":\"key\"}\n";
    assert_eq!(world.effects(), lines);
}

#[tokio::test]
async fn without_a_file_nothing_is_marked_and_without_a_folder_nothing_is_written() {
    let world = World::new();
    for (file, expected, marks) in [
        (None, ReasonCode::NotConfigured, 0),
        (Some(world.folder().join("missing/effects.log")), ReasonCode::ToolExecutionError, 1),
    ] {
        let tool = ExternalWrite::new(file);
        let arguments = json!({"content": "text"});
        let (answer, marked) = world.call_tool(&tool, &arguments, &world.writer(Uuid::nil()), Marks::Recorded).await;
        assert_eq!((answer, marked.len()), (Err(expected), marks));
    }
}
