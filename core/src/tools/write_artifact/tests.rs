use uuid::Uuid;

use super::*;
use crate::tools::tests::{Marks, World};

async fn write(world: &World, id: Uuid, arguments: Value) -> Result<Value, ReasonCode> {
    match world.call("artifact.write", &arguments, &world.writer(id), Marks::Refused).await.0? {
        ToolAnswer::Result { value, artifact } => {
            assert_eq!(artifact.map(|artifact| artifact.id), Some(id));
            Ok(value)
        }
        ToolAnswer::Ask(_) => panic!("writing asks nothing"),
    }
}

#[tokio::test]
async fn the_same_call_writes_the_same_bytes_to_the_same_place() {
    let world = World::new();
    let arguments = json!({"name": "a.txt", "content": "hello"});
    let expected = json!({
        "artifact_id": Uuid::max(),
        "name": "a.txt",
        "media_type": "text/plain; charset=utf-8",
        "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "size_bytes": 5,
    });
    for _ in 0..2 {
        assert_eq!(write(&world, Uuid::max(), arguments.clone()).await, Ok(expected.clone()));
    }
    let base64 = json!({"name": "b", "media_type": "application/octet-stream", "content": "aGVsbG8=", "encoding": "base64"});
    assert_eq!(write(&world, Uuid::nil(), base64).await.unwrap()["sha256"], expected["sha256"]);
}

#[tokio::test]
async fn what_is_no_name_type_or_encoding_is_refused() {
    let world = World::new();
    for arguments in [
        json!({"name": "../a", "content": ""}),
        json!({"name": "a", "media_type": "text", "content": ""}),
        json!({"name": "a", "content": "not base64", "encoding": "base64"}),
    ] {
        assert_eq!(write(&world, Uuid::max(), arguments).await, Err(ReasonCode::ArtifactInvalid));
    }
}
