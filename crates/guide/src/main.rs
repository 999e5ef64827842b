//! `write-guide REPOSITORY FOLDER`: see [`guide::write`].

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(repository), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("name the repository, and the folder to write to".into());
    };
    guide::write(repository.as_ref(), folder.as_ref())
}
