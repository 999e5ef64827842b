//! What the tasks keep to when they write into a bucket.

use worker::{Bucket, Conditional, Object, Result};

/// How many pages of a list are read at most: each has a thousand objects.
const PAGES_MAX: usize = 50;

/// Only where nothing is: an object that is there is never written over.
pub(super) fn only_new() -> Conditional {
    Conditional { etag_does_not_match: Some("*".to_owned()), ..Conditional::default() }
}

/// What lies in a folder and not in one of its own, in the order of its names: all pages of the list, as far as that is bounded.
pub(super) async fn listed(bucket: &Bucket, folder: &str) -> Result<Vec<Object>> {
    let (mut objects, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let mut list = bucket.list().prefix(folder).delimiter("/");
        if let Some(cursor) = cursor {
            list = list.cursor(cursor);
        }
        let page = list.execute().await?;
        objects.extend(page.objects());
        cursor = page.cursor().filter(|_| page.truncated());
        if cursor.is_none() {
            break;
        }
    }
    Ok(objects)
}
