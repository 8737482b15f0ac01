//! The child process, and what it leaves on disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use joinery_plugin::{
    Compile, HostSettings, PluginFile, Policy, Runtime, RuntimeOptions, SetupError,
};

use crate::guests::{compiler, guest};

fn runtime(dir: &std::path::Path, compile: Compile) -> Result<Runtime, SetupError> {
    Runtime::new(RuntimeOptions {
        max_memory: RuntimeOptions::MAX_MEMORY,
        cache_dir: Some(dir.to_owned()),
        compile,
        workers: Some(1),
        policy: Policy::allow_all(),
    })
}

fn compiled(dir: &std::path::Path) -> Vec<PathBuf> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        // Beside each lies its checksum.
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "cwasm")
        })
        .collect()
}

/// Cannot compile: whoever loads with it has found the compiled form.
fn no_compiler() -> Compile {
    Compile::Child {
        program: "/bin/false".into(),
        args: Vec::new(),
    }
}

#[tokio::test]
async fn a_component_is_compiled_once_and_found_again() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("made/by/the/host");
    let load = async |compile| {
        let runtime = runtime(&dir, compile).unwrap();
        runtime
            .load(PluginFile::new(
                "cluster_task",
                guest("cluster_task"),
                HostSettings::default(),
            ))
            .await
    };
    assert!(
        load(no_compiler())
            .await
            .unwrap_err()
            .to_string()
            .starts_with("cannot be compiled: ")
    );
    assert!(compiled(&dir).is_empty(), "nothing half done is left");
    load(compiler()).await.unwrap();
    assert_eq!(
        fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let [file] = compiled(&dir).try_into().unwrap();
    load(no_compiler()).await.unwrap();

    // What is damaged is made again.
    fs::write(&file, b"damaged").unwrap();
    assert!(load(no_compiler()).await.is_err());
    load(compiler()).await.unwrap();
    // What others may write is not believed.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(load(no_compiler()).await.is_err());
    load(Compile::InProcess).await.unwrap();
    load(no_compiler()).await.unwrap();
}

#[tokio::test]
async fn old_artefacts_go() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..70 {
        let path = dir.path().join(format!("{n:02}.cwasm"));
        fs::write(&path, "x").unwrap();
        let time = SystemTime::now() - Duration::from_secs(3600 - n);
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }
    let runtime = runtime(dir.path(), compiler()).unwrap();
    runtime
        .load(PluginFile::new(
            "cluster_task",
            guest("cluster_task"),
            HostSettings::default(),
        ))
        .await
        .unwrap();
    let left = compiled(dir.path());
    assert_eq!(left.len(), 64);
    assert!(
        !left.contains(&dir.path().join("00.cwasm")) && left.contains(&dir.path().join("69.cwasm"))
    );
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = runtime(dir.path(), no_compiler())
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.ends_with("others may write into it: empty it and set its mode to 0700"),
        "{error}"
    );
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(runtime(&file, no_compiler()).is_err());
}

#[tokio::test]
async fn a_compiler_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Compile::Child {
        program: "/no/such/program".into(),
        args: Vec::new(),
    };
    let runtime = runtime(dir.path(), missing).unwrap();
    let error = runtime
        .load(PluginFile::new(
            "cluster_task",
            guest("cluster_task"),
            HostSettings::default(),
        ))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot start the compiler /no/such/program: "),
        "{error}"
    );
}

#[tokio::test]
async fn a_compiler_that_is_killed_may_do_better_next_time_and_one_that_refuses_will_not() {
    for (script, may_pass, words) in [
        (
            "kill -KILL $$",
            true,
            "compiling: the compiler ended with signal: 9 (SIGKILL)",
        ),
        (
            "echo no space left >&2; exit 3",
            true,
            "compiling: no space left",
        ),
        (
            "ulimit -c 0; kill -XCPU $$",
            false,
            "cannot be compiled: the compiler ended with signal: 24 (SIGXCPU), most likely at its limits",
        ),
        (
            "echo bad code >&2; exit 1",
            false,
            "cannot be compiled: bad code",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let compile = Compile::Child {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into(), "sh".into()],
        };
        let plugin = PluginFile::new("p", guest("cluster_task"), HostSettings::default());
        let runtime = runtime(dir.path(), compile).unwrap();
        let error = runtime.load(plugin).await.unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.may_pass()),
            (words, may_pass)
        );
    }
}

#[test]
fn the_child_says_what_it_wants() {
    let Compile::Child { program, .. } = compiler() else {
        panic!("a child")
    };
    let run = |args: &[&str]| {
        std::process::Command::new(&program)
            .args(args)
            .output()
            .unwrap()
    };
    let output = run(&["one"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: compile IN OUT"));
    let output = run(&["/no/such/file", "/no/such/place"]);
    // That a file cannot be read is no fault of the component.
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("/no/such/file: "));
}
