//! Where a link of a document leads on the site.

use crate::documents;

/// What the documents call the demo.
pub(crate) const DEMO: &str = "http://localhost:8787";

/// Where a link leads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// This address.
    Address(String),
    /// A file of the repository that the site does not have, by its path.
    Source(String),
}

/// The target of a link in the document `file`.
pub(crate) fn target(file: &str, link: &str) -> Target {
    if let Some(path) = link.strip_prefix(DEMO) {
        return Target::Address(if path.is_empty() { "/".to_owned() } else { path.to_owned() });
    }
    if link.starts_with('#') || link.contains("://") || link.starts_with("mailto:") {
        return Target::Address(link.to_owned());
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let path = joined(file, path);
    match documents::at(&path) {
        Some(document) => {
            let anchor = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
            Target::Address(document.path() + &anchor)
        }
        None => Target::Source(path),
    }
}

/// The address of a picture in the document `file`, if the site has it.
pub(crate) fn picture(file: &str, link: &str) -> Option<String> {
    joined(file, link).strip_prefix("static/").map(|name| format!("/assets/{name}"))
}

/// A path relative to the folder of a file, from the root.
fn joined(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "" | "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(of: &str) -> Target {
        Target::Address(of.to_owned())
    }

    #[test]
    fn a_picture_is_one_of_the_sites_own() {
        assert_eq!(picture("docs/lab.md", "../static/preview.png").as_deref(), Some("/assets/preview.png"));
        assert_eq!(picture("README.md", "docs/picture.png"), None);
        assert_eq!(picture("README.md", "https://elsewhere.example/static/picture.png"), None);
    }

    #[test]
    fn a_link_to_a_document_leads_to_its_page_from_wherever_it_stands() {
        assert_eq!(target("docs/lab.md", "protocol.md#the-key"), address("/guide/protocol#the-key"));
        assert_eq!(target("README.md", "docs/lab.md"), address("/guide/lab"));
        assert_eq!(target("docs/lab.md", "../README.md"), address("/guide"));
        assert_eq!(target("crates/once/README.md", "../once-object"), address("/guide/once-object"));
    }

    #[test]
    fn a_link_to_the_demo_leads_to_this_site() {
        assert_eq!(target("README.md", "http://localhost:8787/lab"), address("/lab"));
        assert_eq!(target("README.md", "http://localhost:8787"), address("/"));
        assert_eq!(target("docs/lab.md", "http://localhost:8000"), address("http://localhost:8000"));
    }

    #[test]
    fn a_link_within_the_page_or_to_another_site_stays() {
        for link in ["#the-key", "https://www.rfc-editor.org/rfc/rfc9457", "mailto:a@example.com"] {
            assert_eq!(target("docs/lab.md", link), address(link));
        }
    }

    #[test]
    fn a_link_to_a_file_of_the_source_is_none() {
        let source = Target::Source("tests/worker/keys.test.mjs".to_owned());
        assert_eq!(target("docs/protocol.md", "../tests/worker/keys.test.mjs"), source);
    }
}
