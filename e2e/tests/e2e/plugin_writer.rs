//! What a plugin's writer does with `joinery plugin`, from nothing to manifests: the commands of docs/plugins.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use joinery_e2e::{RunDir, Workspace};

/// Runs a program in a folder. Its guests are built where those of the checkout are: their dependencies are there already.
fn run(folder: &Path, program: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env(
            "CARGO_TARGET_DIR",
            Workspace::here().plugins().join("target"),
        )
        .env_remove("RUSTFLAGS")
        .env("JOINERY_LOG", "off")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it prints; it must succeed.
fn good(folder: &Path, program: &Path, arguments: &[&str]) -> String {
    let output = run(folder, program, arguments);
    let said = text(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?}: {}{said}",
        text(&output.stdout)
    );
    text(&output.stdout)
}

#[test]
fn a_new_plugin_of_each_shape_builds_passes_its_tests_and_is_taken() {
    let workspace = Workspace::here();
    let joinery = workspace.binary("joinery").unwrap();
    let run_dir = RunDir::take(workspace.root(), "e2e-plugin-writer").unwrap();
    let parent = run_dir.path();
    for (name, shape, resource) in [
        ("e2e-note", "stored", "e2enotes.e2e-note.example.com"),
        (
            "e2e-pod-story",
            "view",
            "e2epodstories.e2e-pod-story.example.com",
        ),
        ("e2e-item", "served", "e2eitems.e2e-item.example.com"),
    ] {
        let folder = parent.join(name);
        let _ = fs::remove_dir_all(&folder);
        good(parent, &joinery, &["plugin", "new", name, "--shape", shape]);
        let again = run(parent, &joinery, &["plugin", "new", name, "--shape", shape]);
        assert!(text(&again.stderr).contains("is there already"));

        let cargo = Path::new("cargo");
        good(&folder, cargo, &["test", "--quiet"]);
        good(
            &folder,
            cargo,
            &["build", "--quiet", "--release", "--target", "wasm32-wasip2"],
        );
        let built = format!("{}.wasm", name.replace('-', "_"));
        let release = workspace.plugins().join("target/wasm32-wasip2/release");
        fs::copy(release.join(&built), folder.join(&built)).unwrap();

        let plugin = |command: &str, more: &[&str]| {
            let line = [&["plugin", command, &built], more].concat();
            good(&folder, &joinery, &line)
        };
        let checked = plugin("check", &[]);
        assert!(
            checked.contains(resource) && checked.contains("The host takes it."),
            "{checked}"
        );
        let tested = plugin("test", &["cases"]);
        assert!(tested.contains("cases passed"), "{tested}");
        let packed = plugin("pack", &[]);
        for part in [
            "kind: ConfigMap\n",
            "plugins.joinery.dev/digest: \"sha256:",
            "  plugin.wasm.zst: ",
            "rbac.authorization.k8s.io/aggregate-to-view: \"true\"",
        ] {
            assert!(packed.contains(part), "{part}");
        }
        assert_eq!(
            packed.contains("aggregate-to-edit"),
            shape != "view",
            "a view is not written"
        );
        assert_eq!(packed.contains("ClusterRoleBinding"), shape == "view");
        let asked: &[&str] = match shape {
            "view" => &["--objects", "cases/two-pods/objects.yaml"],
            "stored" => &["--review", "cases/filled/review.yaml"],
            _ => &[
                "--request",
                "cases/made/request.yaml",
                "--http",
                "cases/made/http.yaml",
            ],
        };
        let answered = plugin("run", asked);
        assert!(answered.contains("apiVersion: "), "{answered}");
        let measured = plugin("bench", &[asked, &["--seconds", "1"]].concat());
        assert!(measured.contains("calls/s"), "{measured}");
        eprintln!("{name}\n{checked}{measured}");

        // A case whose answer is another fails, and says where.
        let case = fs::read_dir(folder.join("cases"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        fs::write(case.path().join("expected.yaml"), "items: nothing\n").unwrap();
        let failed = run(&folder, &joinery, &["plugin", "test", &built, "cases"]);
        let said = text(&failed.stdout);
        assert!(
            !failed.status.success() && said.contains("- items: nothing"),
            "{said}"
        );
        good(
            &folder,
            &joinery,
            &["plugin", "test", &built, "cases", "--update"],
        );
        good(&folder, &joinery, &["plugin", "test", &built, "cases"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn what_the_host_would_refuse_is_explained() {
    let workspace = Workspace::here();
    let joinery = workspace.binary("joinery").unwrap();
    let run_dir = RunDir::take(workspace.root(), "e2e-plugin-check").unwrap();
    let folder = run_dir.path();
    let guest = workspace
        .guests()
        .unwrap()
        .into_iter()
        .find(|g| g.ends_with("combined_tasks.wasm"));
    fs::copy(guest.unwrap(), folder.join("good.wasm")).unwrap();
    fs::write(folder.join("empty.wasm"), "").unwrap();
    fs::write(folder.join("no.wasm"), "#!/bin/sh\n").unwrap();
    fs::write(folder.join("core.wasm"), b"\0asm\x01\0\0\0").unwrap();
    fs::write(folder.join("typo.yaml"), "settings: {grup: a.b}\n").unwrap();
    fs::write(folder.join("grants.yaml"), "plugins: {}\n").unwrap();
    for (arguments, words) in [
        (&["empty.wasm"][..], "the file is empty"),
        (&["no.wasm"], "not a WebAssembly component"),
        (
            &["core.wasm"],
            "cargo build --release --target wasm32-wasip2",
        ),
        (
            &["good.wasm", "--settings", "typo.yaml"],
            "unknown field `grup`",
        ),
        (
            &["good.wasm", "--plugin-grants", "grants.yaml"],
            "to read the source \"events\"",
        ),
    ] {
        let output = run(
            folder,
            &joinery,
            &[&["plugin", "check"], arguments].concat(),
        );
        let said = text(&output.stdout);
        assert!(
            !output.status.success() && said.contains(words),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("The host refuses it: "), "{said}");
    }
    let missing = run(folder, &joinery, &["plugin", "check", "missing.wasm"]);
    let said = text(&missing.stderr);
    assert!(
        !missing.status.success() && said.contains("missing.wasm: No such file"),
        "{said}"
    );

    // Signed by a key, taken where that key is trusted and nowhere else.
    let openssl = Path::new("openssl");
    for key in ["me", "other"] {
        let private = format!("{key}.key");
        good(
            folder,
            openssl,
            &["genpkey", "-algorithm", "ed25519", "-out", &private],
        );
        let public = format!("{key}.pem");
        good(
            folder,
            openssl,
            &["pkey", "-in", &private, "-pubout", "-out", &public],
        );
    }
    let packed = good(
        folder,
        &joinery,
        &["plugin", "pack", "good.wasm", "--key", "me.key"],
    );
    let line = packed
        .lines()
        .find_map(|line| line.trim().strip_prefix("plugins.joinery.dev/signature: "));
    fs::write(folder.join("good.sig"), line.unwrap().trim_matches('"')).unwrap();
    let check = ["plugin", "check", "good.wasm", "--plugin-trusted-keys"];
    let trusted = good(folder, &joinery, &[&check[..], &["me.pem"]].concat());
    assert!(trusted.contains("signature  of a trusted key"), "{trusted}");
    let other = run(folder, &joinery, &[&check[..], &["other.pem"]].concat());
    assert!(
        text(&other.stdout).contains("not trusted: its signature is of none of the 1 trusted keys")
    );
}
