//! The contract is no language's own: plugins in Python and JavaScript, in the folder of a host like any other.

use std::fs;
use std::time::{Duration, Instant};

use joinery_e2e::{Language, LanguageGuest, SoloHost, Workspace};

/// Compiling an interpreter takes 15 seconds of one core, and the cores of a test are shared.
const PATIENCE: Duration = Duration::from_secs(170);

/// Built as `cargo xtask test` builds it; none, and said so, where the machine has not got the language.
fn built(language: Language) -> Option<std::path::PathBuf> {
    match language.build(&Workspace::here()).unwrap() {
        LanguageGuest::Built(component) => Some(component),
        LanguageGuest::LeftOut(why) => {
            eprintln!("left out: the plugin in {}, because {why}", language.name());
            None
        }
    }
}

fn serves_memos(language: Language, spoken: &str) {
    let Some(component) = built(language) else {
        return;
    };
    let workspace = Workspace::here();
    let name = language.name();
    let host = SoloHost::start(&workspace, &format!("e2e-{name}"), &[]).unwrap();
    let kubectl = host.kubectl();
    let began = Instant::now();
    let file = component.file_name().unwrap();
    // Beside and renamed: nobody reads half of it.
    let beside = host.plugin_dir().join(".part");
    fs::copy(&component, &beside).unwrap();
    fs::rename(&beside, host.plugin_dir().join(file)).unwrap();

    let example = fs::read_to_string(language.folder(&workspace).join("memo.yaml")).unwrap();
    let create = |object: &str| kubectl.run_with_input(["create", "-f", "-"], object);
    while let Err(error) = create(&example) {
        assert!(
            began.elapsed() < PATIENCE,
            "{name} is not served: {error:#}"
        );
        std::thread::sleep(Duration::from_millis(250));
    }
    eprintln!("{name}: served after {:.1?}", began.elapsed());
    let resource = format!("memos.{name}.plugins.example.com");
    let printed = kubectl.run(["get", &resource]).unwrap();
    let rows: Vec<Vec<&str>> = printed
        .lines()
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    assert_eq!(rows, [["NAME", "LEVEL", "WORDS"], ["first", "info", "3"]]);

    // The guest's own words, with the field that they are about.
    let empty = example
        .replace("first", "empty")
        .replace(&format!("Hello from {name}"), "' '");
    let refused = format!("{:#}", create(&empty).unwrap_err());
    let words = format!("spec.message: Required value: a memo in {spoken} has at least one word");
    assert!(refused.contains(&words), "{refused}");
    // And the host's: what the guest describes is enforced around it.
    let unknown = example
        .replace("first", "unknown")
        .replace("{ message", "{ level: loud, message");
    let refused = format!("{:#}", create(&unknown).unwrap_err());
    assert!(
        refused.contains("spec.level: Unsupported value: \"loud\""),
        "{refused}"
    );
    let changed = example.replace("Hello from", "Hello and goodbye from");
    kubectl
        .run_with_input(["apply", "-f", "-"], &changed)
        .unwrap();
    let words = kubectl
        .json(["get", &resource, "first", "-o", "json"])
        .unwrap();
    assert_eq!(words["status"]["words"], 5);
}

#[test]
fn a_plugin_in_python_serves_a_stored_resource() {
    serves_memos(Language::Python, "Python");
}

#[test]
fn a_plugin_in_javascript_serves_a_stored_resource() {
    serves_memos(Language::JavaScript, "JavaScript");
}
