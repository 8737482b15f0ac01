//! What was refused before a restart of the host is refused after it: plugins do not go from under their objects while nobody
//! looks.

use std::fs;

use joinery_e2e::{SoloHost, Workspace};
use serde_json::Value;

use crate::checks::plugins::JP;
use crate::client::Client;
use crate::fixtures::{VIEW, custom_task, eventually, text};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const PLUGIN: &str = "custom_task";

fn path() -> String {
    format!("{VIEW}/namespaces/default/customtasks")
}

fn create(client: &Client, name: &str) -> u16 {
    let object = custom_task("default", name).to_string();
    client.send("POST", &path(), &JSON, object).status.as_u16()
}

/// Waits until the plugin's condition `Loaded` has this reason, while it serves.
fn serves_all_the_same(client: &Client, reason: &str) -> Value {
    eventually(&format!("{PLUGIN} to be {reason} and to serve"), || {
        let answer = client.get(&format!("{JP}/{PLUGIN}"));
        let plugin = (answer.status == 200).then(|| answer.json())?;
        let conditions = plugin["status"]["conditions"].as_array()?.iter();
        let of = |name: &str| conditions.clone().find(|c| c["type"] == name).cloned();
        let found = of("Loaded")?["reason"] == reason && of("Ready")?["status"] == "True";
        found.then_some(plugin)
    })
}

#[test]
fn a_plugin_that_is_taken_away_or_damaged_while_the_host_is_down_serves_its_objects_on() {
    let host = SoloHost::start(&Workspace::here(), "e2e-restart", &[]).unwrap();
    let client = Client::of_kubeconfig(host.kubectl());
    let file = host.plugins().join(format!("{PLUGIN}.wasm"));
    let component = fs::read(&file).unwrap();
    let kept = host.data_dir().join(format!("accepted/{PLUGIN}.plugin"));
    assert_eq!(create(&client, "kept"), 201);
    let restarted = |change: &dyn Fn()| {
        host.stop(true);
        change();
        host.begin().unwrap();
    };

    // Away.
    restarted(&|| fs::remove_file(&file).unwrap());
    let staying = serves_all_the_same(&client, "RemovalRefused");
    assert!(
        text(&staying, "/status/message")
            .contains("the store has 1 object of customtasks.aggregated.tasks.example.com"),
        "{staying:#}"
    );
    assert_eq!(client.get(&format!("{}/kept", path())).status, 200);
    eventually("an Event that says so", || {
        let events = client.get(
            "/api/v1/namespaces/default/events?fieldSelector=reason%3DRemovalRefused,involvedObject.name%3Dcustom_task",
        );
        let events = events.json();
        events["items"]
            .as_array()
            .filter(|items| !items.is_empty())
            .map(|_| ())
    });
    // Its rules are there too.
    let mut wrong = custom_task("default", "wrong");
    wrong["spec"]["priority"] = 99.into();
    let refused = client.send("POST", &path(), &JSON, wrong.to_string());
    assert_eq!(refused.status, 422, "{}", refused.text());

    // Another file: no plugin at all, then one that no longer serves the resource.
    restarted(&|| fs::write(&file, b"garbage").unwrap());
    let refused = serves_all_the_same(&client, "NewestRefused");
    assert!(
        text(&refused, "/status/message").contains("not a WebAssembly component"),
        "{refused:#}"
    );
    let settings = file.with_extension("yaml");
    restarted(&|| {
        fs::write(&file, &component).unwrap();
        fs::write(&settings, "settings:\n  group: other.example.com\n").unwrap();
    });
    let refused = serves_all_the_same(&client, "NewestRefused");
    assert!(
        text(&refused, "/status/message").contains(
            "it no longer serves customtasks.aggregated.tasks.example.com, of which the store has 1 object"
        ),
        "{refused:#}"
    );
    assert_eq!(create(&client, "another"), 201);

    // Its objects gone, what is wanted comes by itself: nobody touches the file.
    for name in ["kept", "another"] {
        let gone = client.send("DELETE", &format!("{}/{name}", path()), &JSON, "{}");
        assert_eq!(gone.status, 200, "{}", gone.text());
    }
    eventually("the version that was refused to serve", || {
        let other = client.get("/apis/other.example.com/v1/customtasks");
        (other.status == 200 && client.get(&path()).status == 404).then_some(())
    });
    fs::remove_file(&file).unwrap();
    eventually("the plugin to go, and what was kept of it", || {
        let plugin = client.get(&format!("{JP}/{PLUGIN}"));
        (plugin.status == 404 && !kept.exists()).then_some(())
    });
}
