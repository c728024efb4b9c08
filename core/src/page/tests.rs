use super::*;

#[test]
fn a_cursor_keeps_full_precision() {
    let cursor = Cursor {
        created_at: OffsetDateTime::UNIX_EPOCH + time::Duration::nanoseconds(1_234_567_891_234_567),
        id: Uuid::from_u128(7),
    };
    assert_eq!(Cursor::decode(&cursor.encode()).unwrap(), cursor);
}

#[test]
fn a_cursor_of_one_kind_is_none_of_the_other() {
    for sequence in [0, 1, i64::MAX] {
        let text = SequenceCursor(sequence).encode();
        assert_eq!(SequenceCursor::decode(&text).unwrap(), SequenceCursor(sequence));
        assert!(Cursor::decode(&text).is_err());
    }
    let row = Cursor { created_at: OffsetDateTime::UNIX_EPOCH, id: Uuid::nil() }.encode();
    assert!(SequenceCursor::decode(&row).is_err());
}

#[test]
fn what_is_no_cursor_is_an_error() {
    for text in ["", "x", "====", &"A".repeat(43), &"A".repeat(1_000)] {
        assert!(matches!(PageRequest::<Cursor>::new(Some(text), None), Err(Error::Malformed(_)) | Ok(_)), "{text}");
    }
    assert!(PageRequest::<Cursor>::new(Some("x"), None).is_err());
    assert!(PageRequest::<Cursor>::new(None, Some(0)).is_err());
    assert_eq!(PageRequest::<Cursor>::new(None, Some(10_000)).unwrap().limit(), LIMIT_MAX);
}

#[test]
fn there_is_a_next_page_exactly_where_there_is_a_row_more() {
    let cursor = |id: &u128| Cursor { created_at: OffsetDateTime::UNIX_EPOCH, id: Uuid::from_u128(*id) };
    assert!(page(vec![1, 2], 2, cursor).next_cursor.is_none());
    let first = page(vec![1, 2, 3], 2, cursor);
    assert_eq!((first.items, first.next_cursor.as_deref()), (vec![1, 2], Some(cursor(&2).encode().as_str())));
}
