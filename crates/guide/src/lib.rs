//! The repository's documents as pages. `scripts/build.mjs` has them written on the machine that builds, so none of it is part of a Worker.

use std::path::Path;

use askama::Template;
use web::assets;
use web::pages::Site;

mod documents;
mod headings;
mod links;
mod markdown;

use documents::{Document, GROUPS, Group};
use markdown::Rendered;

#[derive(Template)]
#[template(path = "guide.html")]
struct Page<'a> {
    site: Site,
    groups: &'static [Group],
    document: &'a Document,
    rendered: Rendered,
}

impl Page<'_> {
    fn is_here(&self, document: &Document) -> bool {
        document.slug == self.document.slug
    }
}

/// Only the demo has these pages: see `src/edge/guide.rs`.
fn site() -> Site {
    Site {
        demo: true,
        sends_receipts: false,
        has_docs: true,
        origin: links::DEMO.to_owned(),
        style: assets::STYLE.address,
        script: assets::SCRIPT.address,
        t: &web::locale::EN,
    }
}

/// Writes the page of each document of the repository into the folder. It fails where a document is missing.
pub fn write(repository: &Path, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder)?;
    for document in GROUPS.iter().flat_map(|group| group.documents) {
        let source = std::fs::read_to_string(repository.join(document.file))
            .map_err(|error| format!("{}: {error}", document.file))?;
        let rendered = markdown::render(document.file, &source);
        let page = Page { site: site(), groups: GROUPS, document, rendered };
        std::fs::write(folder.join(document.page()), page.render()?)?;
    }
    Ok(())
}
