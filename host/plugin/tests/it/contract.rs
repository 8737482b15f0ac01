//! The published contract stays as it is.

use std::path::Path;

/// What must be said to whoever has changed it.
const RULES: &str = "wit/v0.1/plugin.wit is published and frozen: but for comments, what stands there stays. Within 0.1.x \
    these may be added, each with @since(version = 0.1.N): a function on an imported interface (log, kubernetes, http); an \
    interface that a component may export or not; an interface that it may import. Then add the same lines to \
    host/plugin/tests/contract/v0.1.txt. Everything else (a field, a case, a parameter, another type, a function on an \
    exported interface) breaks plugins that are built or hosts that run: it is 0.2, a folder wit/v0.2 and an adapter in \
    host/plugin/src/abi. docs/plugins/contract.md tells it whole.";

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Its lines without comments and without regard to spaces.
fn without_comments(wit: &str) -> Vec<String> {
    wit.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn the_contract_is_the_one_that_was_published() {
    let found = without_comments(&read("../../wit/v0.1/plugin.wit"));
    let recorded: Vec<String> = read("tests/contract/v0.1.txt")
        .lines()
        .map(str::to_owned)
        .collect();
    if found == recorded {
        return;
    }
    let same = found.iter().zip(&recorded).take_while(|(a, b)| a == b);
    let at = same.count();
    let line = |lines: &[String]| lines.get(at).cloned().unwrap_or("nothing".to_owned());
    panic!(
        "published: {}\nfound:     {}\n\n{RULES}",
        line(&recorded),
        line(&found)
    );
}

#[test]
fn every_item_of_the_contract_is_documented() {
    let wit = read("../../wit/v0.1/plugin.wit");
    let mut before = "";
    let mut bare = Vec::new();
    for line in wit.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let needs_none = ["}", "use ", "import ", "export ", "///"];
        if line.starts_with("@since") {
            // What is said of the item stands above.
            continue;
        }
        if !needs_none.iter().any(|start| line.starts_with(start)) && !before.starts_with("///") {
            bare.push(line);
        }
        before = line;
    }
    assert!(bare.is_empty(), "without a word: {bare:#?}");
}
