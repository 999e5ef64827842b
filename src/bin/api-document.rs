//! Writes the API's document and its page into a folder: `openapi.json`, `page.html`, and `demo.html`, the page as the demo has it.
//! `scripts/build.mjs` runs it on the machine that builds, so none of it is part of the Worker.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    use paid_once::edge::openapi::{document, page};
    use paid_once::edge::routes::DOCUMENTED;

    let folder = std::env::args().nth(1).ok_or("name the folder to write to")?;
    let folder = std::path::Path::new(&folder);
    let document = document(DOCUMENTED);
    std::fs::write(folder.join("openapi.json"), document.to_string())?;
    std::fs::write(folder.join("page.html"), page(&document, false)?)?;
    std::fs::write(folder.join("demo.html"), page(&document, true)?)?;
    Ok(())
}
