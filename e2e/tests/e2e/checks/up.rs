//! `cargo xtask up -- CMD`: the command's environment, its status, and nothing left behind.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use joinery_e2e::{Kind, signal_process};

use crate::fixtures::eventually;
use crate::shared::Shared;

const SIGTERM: i32 = 15;

/// The command sees what the README promises; its status is the status; what it left running is ended with all else.
pub(crate) fn up_runs_a_command_and_leaves_nothing_behind(environment: &Shared) {
    let _gate = environment.in_common();
    let script = r#"
        for name in KUBECONFIG JOINERY_CA JOINERY_PLUGIN_DIR $FRONT_PROXY; do
            eval "path=\$$name"; test -e "$path" || { echo "no $name: $path"; exit 1; }
        done
        echo "kubectl=$(command -v kubectl)"
        echo "joinery=$(command -v joinery)"
        echo "may=$(kubectl auth can-i '*' '*')"
        echo "samples=$(kubectl get combinedtasks -n default -o name | wc -l)"
        echo "plugins=$(ls "$JOINERY_PLUGIN_DIR" | grep -c wasm)"
        echo "url=$JOINERY_URL"
        echo "run=$KUBECONFIG"
        sleep 1000 &
        exit 7
    "#;
    let output = up(environment, &["sh", "-c", script]);
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(7), "{said}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let value = |name: &str| {
        stdout
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or_else(|| panic!("no {name} in {said}"))
            .trim()
            .to_owned()
    };
    let run = value("run").trim_end_matches("/kubeconfig").to_owned();
    assert_eq!(value("kubectl"), format!("{run}/bin/kubectl"));
    assert_eq!(value("joinery"), format!("{run}/bin/joinery"));
    assert_eq!(value("may"), "yes");
    assert!(value("samples").parse::<usize>().unwrap() >= 5, "{said}");
    assert_eq!(value("plugins"), "3");
    let address = value("url").trim_start_matches("https://").to_owned();
    assert!(
        std::net::TcpStream::connect(&address).is_err(),
        "{address} still listens"
    );
    assert_eq!(processes_of(&run), Vec::<String>::new());
}

/// A command that is not there is named; a signal ends the command and everything else.
pub(crate) fn up_says_what_is_wrong_and_ends_on_a_signal(environment: &Shared) {
    let _gate = environment.in_common();
    let output = up(environment, &["no-such-command"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot run no-such-command"), "{said}");

    let marker = environment.run_dir().path().join("up-runs");
    let script = format!("echo $KUBECONFIG > {}; exec sleep 1000", marker.display());
    let mut child = command(environment, &["sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let run = eventually("the command to run", || {
        let text = fs::read_to_string(&marker).ok()?;
        Some(text.trim().strip_suffix("/kubeconfig")?.to_owned())
    });
    signal_process(child.id(), SIGTERM);
    let end = Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "it goes on after SIGTERM");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.code(), Some(128 + SIGTERM));
    assert_eq!(processes_of(&run), Vec::<String>::new());
}

fn up(environment: &Shared, line: &[&str]) -> Output {
    command(environment, line).output().unwrap()
}

fn command(environment: &Shared, line: &[&str]) -> Command {
    let mut command = Command::new(environment.workspace().binary("xtask").unwrap());
    command
        .arg("up")
        .current_dir(environment.workspace().root())
        .env("JOINERY_E2E_BUILT", "1")
        .stdin(Stdio::null());
    if environment.kind() == Kind::Cluster {
        command
            .arg("--cluster")
            .env("FRONT_PROXY", "FRONT_PROXY_CERT FRONT_PROXY_KEY");
    }
    command.arg("--").args(line);
    command
}

/// Command lines that name the run's folder.
fn processes_of(run: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&format!("{run}/")) {
            found.push(line);
        }
    }
    found
}
