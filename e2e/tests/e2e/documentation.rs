//! What is said of the tests is so.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// docs/checks.md names tests by where they stand (a file, or a folder) and by their functions.
#[test]
fn every_test_that_the_page_of_checks_names_stands_where_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("docs/checks.md")).unwrap();
    let mut files = Vec::new();
    sources(&root.join("host"), &mut files);
    sources(&root.join("e2e/tests/e2e"), &mut files);
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(1));
    let (mut checked, mut wrong) = (0, Vec::new());
    for row in rows {
        let mut place = "";
        // What stands between backticks is every second part.
        for name in row.split('`').skip(1).step_by(2) {
            if name.contains(['/', '.']) {
                place = name.trim_end_matches('/');
                if !files
                    .iter()
                    .any(|file| file.to_string_lossy().contains(place))
                {
                    wrong.push(format!("there is no {place}"));
                }
            } else if name.contains('_') {
                checked += 1;
                let function = format!("fn {name}(");
                let stands = |file: &&PathBuf| file.to_string_lossy().contains(place);
                let found = files
                    .iter()
                    .filter(stands)
                    .any(|file| fs::read_to_string(file).unwrap().contains(&function));
                if !found {
                    wrong.push(format!("{place} has no {name}"));
                }
            }
        }
    }
    assert!(
        checked > 50,
        "{checked} names: is the page written otherwise?"
    );
    assert!(wrong.is_empty(), "docs/checks.md: {}", wrong.join("; "));
}

/// `cargo xtask test --quick` leaves out `cluster`, and with it whatever needs a control plane.
#[test]
fn what_needs_a_control_plane_stands_in_its_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e");
    let mut files = Vec::new();
    sources(&folder, &mut files);
    let asks = |file: &&PathBuf| {
        fs::read_to_string(file)
            .unwrap()
            .contains(concat!("cluster", "()"))
    };
    let asking: Vec<_> = files
        .iter()
        .filter(asks)
        .map(|file| file.strip_prefix(&folder).unwrap())
        .collect();
    assert!(asking.contains(&Path::new("cluster.rs")), "{asking:?}");
    let elsewhere: Vec<_> = asking
        .iter()
        .filter(|file| {
            !file.starts_with("cluster")
                && !file.ends_with("cluster.rs")
                && !file.ends_with("shared.rs")
        })
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

/// Cargo refuses a workspace of which a member is missing, whatever of it is built.
#[test]
fn the_image_is_built_with_every_member_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let dockerfile = fs::read_to_string(root.join("deploy/Dockerfile")).unwrap();
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = workspace.split_once("members = [").unwrap().1;
    let members = members.split_once(']').unwrap().0;
    let names: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let folder = name.split('/').next().unwrap();
        let line = format!("COPY {folder} ./{folder}");
        assert!(dockerfile.lines().any(|copied| copied == line), "{line}");
    }
}
