//! `minfer models`: the models that can be named.

use std::io::Write;
use std::path::PathBuf;

use minfer_hub::{CachedModel, DEFAULT_MODEL, Options, catalogue, list_cached};
use serde::Serialize;

use crate::args::ModelsArgs;
use crate::shell::Shell;
use crate::table::{Align, Table};
use crate::units;

pub(super) fn run(args: &ModelsArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let options = Options::default();
    let listing = Listing::new(options.cache_folder()?, &list_cached(&options)?);
    if args.json { shell.out.json(&listing) } else { Ok(listing.write(&mut shell.out)?) }
}

/// Everything that the command shows.
#[derive(Serialize)]
struct Listing {
    folder: PathBuf,
    models: Vec<Model>,
}

/// A model that can be named.
#[derive(Serialize)]
struct Model {
    name: String,
    about: Option<&'static str>,
    bytes: u64,
    /// The file, if it is here.
    path: Option<PathBuf>,
    default: bool,
}

impl Listing {
    /// Short names first, then the files that have none.
    fn new(folder: PathBuf, cached: &[CachedModel]) -> Self {
        let short = catalogue().iter().map(|entry| Model {
            name: entry.name.to_owned(),
            about: Some(entry.about),
            bytes: entry.size,
            path: cached
                .iter()
                .find(|file| file.short_name == Some(entry.name))
                .map(|file| file.path.clone()),
            default: entry.name == DEFAULT_MODEL,
        });
        let files = cached.iter().filter(|file| file.short_name.is_none()).map(|file| Model {
            name: file.file.clone(),
            about: None,
            bytes: file.size,
            path: Some(file.path.clone()),
            default: false,
        });
        Self { folder, models: short.chain(files).collect() }
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let columns =
            [("name", Align::Left), ("size", Align::Right), ("here", Align::Left), ("about", Align::Left)];
        let mut table = Table::new(columns);
        for model in &self.models {
            let here = if model.path.is_some() { "yes" } else { "no" };
            let about = model.about.unwrap_or_default();
            let default = if model.default { " (the default)" } else { "" };
            table.push([
                model.name.clone(),
                units::bytes(model.bytes),
                here.into(),
                format!("{about}{default}"),
            ]);
        }
        table.write(out, 0)?;
        writeln!(out, "\nfolder: {}", self.folder.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_short_name_is_listed_and_one_is_the_default() {
        let listing = Listing::new("/m".into(), &[]);
        let names: Vec<_> = listing.models.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, catalogue().iter().map(|entry| entry.name).collect::<Vec<_>>());
        assert_eq!(listing.models.iter().filter(|model| model.default).count(), 1);
        assert!(listing.models.iter().all(|model| model.path.is_none()));
    }
}
