//! Plugins as operators handle them: in ConfigMaps, with their status, their Events and their APIServices.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use joinery_e2e::Kubectl;
use serde_json::{Value, json};

use crate::client::Client;
use crate::fixtures::{Namespace, custom_task, events_of, eventually, names_of, text};
use crate::shared::{Shared, count};

pub(crate) const JP: &str = "/apis/joinery.dev/v1alpha1/joineryplugins";
const SYSTEM: &str = "joinery-system";
const PATIENCE: Duration = Duration::from_secs(20);
/// Until what a new plugin serves is seen through kube-apiserver.
const AGGREGATED: Duration = Duration::from_secs(5);
/// What `/apis` is asked for by clients that want all of discovery at once.
const AGGREGATED_DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// In the component: a key that its `combine` writes and its schema declares, and another of the same length.
const OLD: &str = "taskResourceVersion";
const NEW: &str = "taskResourceVersioN";

/// A ConfigMap with a plugin, deleted when dropped.
pub(crate) struct PluginMap<'a> {
    kubectl: &'a Kubectl,
    name: String,
}

impl<'a> PluginMap<'a> {
    /// Creates it.
    pub(crate) fn new(
        kubectl: &'a Kubectl,
        plugin: &str,
        component: &[u8],
        settings: &str,
    ) -> PluginMap<'a> {
        let map = PluginMap {
            kubectl,
            name: format!("plugin-{plugin}"),
        };
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": map.name, "namespace": SYSTEM, "labels": {"plugins.joinery.dev/plugin": plugin}},
            "data": {"settings.yaml": settings},
            "binaryData": {"plugin.wasm": STANDARD.encode(component)},
        });
        kubectl
            .run_with_input(["create", "-f", "-"], &object.to_string())
            .unwrap();
        map
    }

    pub(crate) fn set_settings(&self, client: &Client, settings: &str) {
        self.merge(client, &json!({"data": {"settings.yaml": settings}}));
    }

    pub(crate) fn set_component(&self, client: &Client, component: &[u8]) {
        let component = STANDARD.encode(component);
        self.merge(client, &json!({"binaryData": {"plugin.wasm": component}}));
    }

    fn merge(&self, client: &Client, patch: &Value) {
        let path = format!("/api/v1/namespaces/{SYSTEM}/configmaps/{}", self.name);
        let headers = [("Content-Type", "application/merge-patch+json")];
        let answer = client.send("PATCH", &path, &headers, patch.to_string());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    pub(crate) fn delete(&self) {
        self.kubectl
            .run(["delete", "configmap", &self.name, "-n", SYSTEM])
            .unwrap();
    }
}

impl Drop for PluginMap<'_> {
    fn drop(&mut self) {
        let _ = self.kubectl.output([
            "delete",
            "configmap",
            &self.name,
            "-n",
            SYSTEM,
            "--ignore-not-found",
        ]);
    }
}

fn component(environment: &Shared, name: &str) -> Vec<u8> {
    let dir = environment.workspace().plugins();
    fs::read(dir.join(format!("target/wasm32-wasip2/release/{name}.wasm"))).unwrap()
}

fn plugin(client: &Client, name: &str) -> Option<Value> {
    let answer = client.get(&format!("{JP}/{name}"));
    (answer.status == 200).then(|| answer.json())
}

/// Waits until a plugin's status has this reason.
fn with_reason(client: &Client, name: &str, reason: &str) -> Value {
    eventually(&format!("plugin {name} to be {reason}"), || {
        plugin(client, name).filter(|plugin| text(plugin, "/status/reason") == reason)
    })
}

fn condition<'a>(plugin: &'a Value, name: &str) -> &'a Value {
    let conditions = plugin["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .find(|condition| condition["type"] == name)
        .unwrap_or(&Value::Null)
}

/// Messages of the Events of this reason about an object.
fn events_about(client: &Client, namespace: &str, name: &str, reason: &str) -> Vec<String> {
    let path = format!(
        "/api/v1/namespaces/{namespace}/events?fieldSelector=reason%3D{reason},involvedObject.name%3D{name}"
    );
    let list = client.get(&path).json();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items
        .iter()
        .map(|event| text(event, "/message").to_owned())
        .collect()
}

/// From nothing to a resource, to another generation by settings alone, past a broken one, and back to nothing: what the
/// ConfigMap says is what is served, and the status, the Events and discovery say so.
pub(crate) fn a_plugin_in_a_config_map_lives_and_goes_with_it(environment: &Shared) {
    let _gate = environment.alone();
    let client = Client::admin(environment);
    let direct = Client::direct(environment);
    let kubectl = environment.kubectl();
    let path = "/apis/one.plugins.example.com/v1/combinedtasks";
    let from = text(&client.get(JP).json(), "/metadata/resourceVersion").to_owned();
    let mut watch = client
        .watch(&format!("{JP}?watch=true&resourceVersion={from}"))
        .unwrap();

    let began = Instant::now();
    let settings = "settings:\n  group: one.plugins.example.com\n";
    let map = PluginMap::new(
        kubectl,
        "one",
        &component(environment, "combined_tasks"),
        settings,
    );
    eventually("the host to serve it", || {
        (direct.get(path).status == 200).then_some(())
    });
    let served = began.elapsed();
    let list = eventually("it to be seen", || {
        let answer = client.get(path);
        (answer.status == 200).then(|| answer.json())
    });
    let seen = began.elapsed();
    assert!(
        served < Duration::from_secs(2) && seen < AGGREGATED,
        "served after {served:?}, seen after {seen:?}"
    );
    // Two instances of one component, with settings of their own.
    let others = client.get(&format!("{}/combinedtasks", crate::fixtures::VIEW));
    let names = |list: &Value| names_of(list["items"].as_array().unwrap()).join(",");
    assert_eq!(names(&list), names(&others.json()));
    eventually("kubectl to find it", || {
        let printed = kubectl.run(["get", "combinedtasks.one.plugins.example.com", "-A"]);
        printed.ok().filter(|p| p.contains("task-sample-5"))
    });

    let found = with_reason(&client, "one", "Serving");
    assert_eq!(
        (
            text(&found, "/status/shape"),
            text(&found, "/status/served")
        ),
        ("view", "combinedtasks.one.plugins.example.com")
    );
    assert_eq!(text(&found, "/spec/source/configMap/name"), "plugin-one");
    assert_eq!(found["status"]["generation"], 1);
    assert_eq!(condition(&found, "Ready")["status"], "True");
    assert_eq!(condition(&found, "SourcesFollowed")["status"], "True");
    watch.expect("the plugin in a watch", PATIENCE, |frame| {
        text(frame, "/object/metadata/name") == "one"
            && text(frame, "/object/status/ready") == "True"
    });
    let printed = kubectl.run(["get", "jp", "one"]).unwrap();
    let line: Vec<&str> = printed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(line[..2], ["one", "view"], "{printed}");
    assert_eq!(line[3..4], ["1"], "{printed}");
    assert_eq!(line[5..7], ["True", "Serving"], "{printed}");
    eventually("an Event of the load", || {
        events_about(&client, SYSTEM, "plugin-one", "PluginLoaded").pop()
    });

    let began = Instant::now();
    map.set_settings(&client, &format!("{settings}  eventsPerTask: 1\n"));
    let second = eventually("another generation", || {
        plugin(&client, "one").filter(|plugin| plugin["status"]["generation"] == 2)
    });
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(second["status"]["digest"], found["status"]["digest"]);
    assert_ne!(
        second["status"]["settingsDigest"],
        found["status"]["settingsDigest"]
    );
    let list = client.get(path).json();
    let longest = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| events_of(item).len());
    assert_eq!(longest.max(), Some(1));

    map.set_component(&client, b"not a component");
    let refused = with_reason(&client, "one", "NewestRefused");
    assert_eq!(
        condition(&refused, "Ready")["status"],
        "True",
        "{refused:#}"
    );
    assert!(
        text(&refused, "/status/message").contains("not a WebAssembly component"),
        "{refused:#}"
    );
    assert_eq!(client.get(path).status, 200);
    eventually("an Event of the refusal", || {
        let messages = events_about(&client, SYSTEM, "plugin-one", "PluginRefused");
        messages
            .into_iter()
            .find(|m| m.contains("the generation before still serves"))
    });
    map.set_settings(&client, "mode: sideways\n");
    eventually("the other fault", || {
        plugin(&client, "one").filter(|p| text(p, "/status/message").contains("sideways"))
    });

    map.delete();
    eventually("the plugin to be gone", || {
        (client.get(path).status == 404 && plugin(&client, "one").is_none()).then_some(())
    });
    eventually("its group to be gone", || {
        let groups = client.get("/apis").text();
        (!groups.contains("one.plugins.example.com")).then_some(())
    });
    watch.expect("the end in a watch", PATIENCE, |frame| {
        text(frame, "/type") == "DELETED" && text(frame, "/object/metadata/name") == "one"
    });
}

/// Whoever deletes the ConfigMap of a plugin does not lose what is stored: the plugin serves until that is gone.
pub(crate) fn a_plugin_with_stored_objects_is_not_taken_away(environment: &Shared) {
    let _gate = environment.in_common();
    let client = Client::admin(environment);
    let namespace = Namespace::new(environment.kubectl(), "staying");
    let map = PluginMap::new(
        environment.kubectl(),
        "staying",
        &component(environment, "custom_task"),
        "settings:\n  group: staying.plugins.example.com\n",
    );
    let path = format!(
        "/apis/staying.plugins.example.com/v1/namespaces/{}/customtasks",
        namespace.name
    );
    eventually("the plugin to serve", || {
        (client.get(&path).status == 200).then_some(())
    });
    let mut object = custom_task(&namespace.name, "kept");
    object["apiVersion"] = "staying.plugins.example.com/v1".into();
    let json = [("Content-Type", "application/json")];
    let made = client.send("POST", &path, &json, object.to_string());
    assert_eq!(made.status, 201, "{}", made.text());

    map.delete();
    let staying = with_reason(&client, "staying", "RemovalRefused");
    assert!(
        text(&staying, "/status/message")
            .contains("the store has 1 object of customtasks.staying.plugins.example.com"),
        "{staying:#}"
    );
    assert_eq!(client.get(&format!("{path}/kept")).status, 200);
    let gone = client.send("DELETE", &format!("{path}/kept"), &json, "{}");
    assert_eq!(gone.status, 200, "{}", gone.text());
    eventually("the plugin to go", || {
        (client.get(&path).status == 404 && plugin(&client, "staying").is_none()).then_some(())
    });
}

/// A resource is one plugin's: another that claims it is refused, and takes it by itself when the first is gone.
pub(crate) fn a_claim_on_another_plugins_resource_is_refused_until_that_is_gone(
    environment: &Shared,
) {
    let _gate = environment.alone();
    let (client, kubectl) = (Client::admin(environment), environment.kubectl());
    let component = component(environment, "combined_tasks");
    let settings = "settings:\n  group: claimed.plugins.example.com\n";
    let path = "/apis/claimed.plugins.example.com/v1/combinedtasks";
    let first = PluginMap::new(kubectl, "first", &component, settings);
    with_reason(&client, "first", "Serving");
    let second = PluginMap::new(kubectl, "second", &component, settings);
    let refused = with_reason(&client, "second", "Refused");
    let message = text(&refused, "/status/message");
    assert_eq!(
        message,
        "combinedtasks.claimed.plugins.example.com is served already, by plugin \"first\", which keeps it until it goes; it is \
         tried again, at longer and longer intervals"
    );
    assert_eq!(condition(&refused, "Ready")["status"], "False");
    let told = eventually("an Event of the refusal", || {
        events_about(&client, SYSTEM, "plugin-second", "PluginRefused").pop()
    });
    assert!(told.contains("is served already"), "{told}");
    assert_eq!(client.get(path).status, 200);
    // One that is refused for what it is, is told once and not tried again.
    let bad = PluginMap::new(kubectl, "bad", b"not a component", "");
    let told = with_reason(&client, "bad", "Refused");
    assert!(
        !text(&told, "/status/message").contains("tried again"),
        "{told:#}"
    );

    first.delete();
    let took = with_reason(&client, "second", "Serving");
    assert_eq!(
        (&took["status"]["generation"], &took["status"]["refusals"]),
        (&json!(1), &json!(1)),
        "however often it was tried"
    );
    assert_eq!(
        events_about(&client, SYSTEM, "plugin-second", "PluginRefused").len(),
        1
    );
    assert_eq!(client.get(path).status, 200);
    bad.delete();
    second.delete();
    eventually("both to go", || {
        let gone = |name| plugin(&client, name).is_none();
        (gone("second") && gone("bad")).then_some(())
    });
}

/// Two versions in turns under load: each answer is wholly of one of them, no request fails, watches stay open and tell
/// of a change where there is one.
pub(crate) fn swaps_under_load_are_whole_and_end_no_watch(environment: &Shared) {
    const GROUP: &str = "swaps.plugins.example.com";
    const CLIENTS: usize = 8;
    /// Two hundred requests a second, together.
    const PAUSE: Duration = Duration::from_millis(40);
    let _gate = environment.alone();
    let client = Client::admin(environment);
    let direct = Client::direct(environment);
    let old = component(environment, "combined_tasks");
    let new = super::reload::replace(&old, OLD.as_bytes(), NEW.as_bytes());
    let settings = format!("settings:\n  group: {GROUP}\n");
    let map = PluginMap::new(environment.kubectl(), "swaps", &old, &settings);
    let version = format!("/apis/{GROUP}/v1");
    let path = &format!("{version}/namespaces/default/combinedtasks");
    let list = eventually("the plugin to serve", || {
        let answer = client.get(path);
        (answer.status == 200).then(|| answer.json())
    });
    let tasks = list["items"].as_array().unwrap().len();
    assert!(tasks > 1);
    let from = text(&list, "/metadata/resourceVersion").to_owned();
    let mut watch = client
        .watch(&format!("{path}?watch=true&resourceVersion={from}"))
        .unwrap();

    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = client.connect();
                let mut due = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    due += PAUSE;
                    asked.fetch_add(1, Ordering::Relaxed);
                    match connection.send("GET", path, &[], "") {
                        Ok(answer) if answer.status == 200 => {
                            let body = answer.text();
                            if body.contains(OLD) == body.contains(NEW) {
                                wrong
                                    .lock()
                                    .unwrap()
                                    .push(format!("of both versions: {body}"));
                            }
                        }
                        Ok(answer) => {
                            let said = format!("{}: {}", answer.status, answer.text());
                            wrong.lock().unwrap().push(said);
                        }
                        Err(error) => {
                            wrong.lock().unwrap().push(error);
                            connection = client.connect();
                        }
                    }
                }
            });
        }
        // Discovery names the resource throughout, or every kubectl in the cluster would complain.
        scope.spawn(|| {
            let mut connection = direct.connect();
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                let headers = [("Accept", AGGREGATED_DISCOVERY)];
                let all = connection
                    .send("GET", "/apis", &headers, "")
                    .unwrap()
                    .json();
                let groups = all["items"].as_array().unwrap();
                let group = groups
                    .iter()
                    .find(|group| text(group, "/metadata/name") == GROUP);
                let named = group.map(|group| &group["versions"][0]["resources"][0]["resource"]);
                let one = connection.send("GET", &version, &[], "").unwrap().json();
                let seen = (named, &one["resources"][0]["name"]);
                if seen != (Some(&json!("combinedtasks")), &json!("combinedtasks")) {
                    wrong
                        .lock()
                        .unwrap()
                        .push(format!("in discovery: {seen:?}"));
                }
            }
        });
        let mut told: BTreeMap<u64, usize> = BTreeMap::new();
        for swap in 0..count(100) as u64 {
            let (component, key) = if swap % 2 == 0 {
                (&new, NEW)
            } else {
                (&old, OLD)
            };
            map.set_component(&client, component);
            eventually("the swap to be reported", || {
                let plugin = plugin(&client, "swaps")?;
                (plugin["status"]["generation"] == swap + 2).then_some(())
            });
            // New everywhere once it is reported.
            let body = client.get(path).text();
            if !body.contains(key) {
                wrong
                    .lock()
                    .unwrap()
                    .push(format!("late after swap {swap}"));
            }
            for _ in 0..tasks {
                watch.expect("each object in the watch", PATIENCE, |frame| {
                    assert_eq!(text(frame, "/type"), "MODIFIED", "{frame}");
                    frame.to_string().contains(key)
                });
                *told.entry(swap).or_default() += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {} answers: {:?}",
        wrong.len(),
        asked.into_inner(),
        &wrong[..wrong.len().min(3)]
    );
    // Settings that change no byte are another generation, and no event.
    let generation = plugin(&client, "swaps").unwrap()["status"]["generation"].clone();
    map.set_settings(&client, &format!("{settings}  eventsPerTask: 999\n"));
    eventually("the generation of the settings", || {
        plugin(&client, "swaps").filter(|plugin| plugin["status"]["generation"] != generation)
    });
    let frame = watch.next(Duration::from_secs(1));
    assert!(frame.is_none(), "{frame:?}");
}

/// The files of a mounted ConfigMap are links through `..data`, which the kubelet exchanges in one step.
pub(crate) fn the_swap_of_a_mounted_config_map_is_live(environment: &Shared) {
    let _gate = environment.alone();
    let client = Client::admin(environment);
    let dir = environment.plugin_dir();
    let volume = |version: &str, group: &str| {
        let folder = dir.join(version);
        fs::create_dir_all(&folder).unwrap();
        let settings = format!("settings:\n  group: {group}\n");
        fs::write(folder.join("mounted.yaml"), settings).unwrap();
        fs::write(
            folder.join("mounted.wasm"),
            component(environment, "cluster_task"),
        )
        .unwrap();
        std::os::unix::fs::symlink(version, dir.join("..data_tmp")).unwrap();
        fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    };
    let serves = |group: &str| {
        eventually(group, || {
            let answer = client.get(&format!("/apis/{group}/v1/clustertasks"));
            (answer.status == 200).then_some(())
        });
    };
    volume("..2026_01", "mounted-one.plugins.example.com");
    for file in ["mounted.wasm", "mounted.yaml"] {
        std::os::unix::fs::symlink(format!("..data/{file}"), dir.join(file)).unwrap();
    }
    serves("mounted-one.plugins.example.com");
    volume("..2026_02", "mounted-two.plugins.example.com");
    serves("mounted-two.plugins.example.com");
    for file in ["mounted.wasm", "mounted.yaml", "..data"] {
        fs::remove_file(dir.join(file)).unwrap();
    }
    for folder in ["..2026_01", "..2026_02"] {
        fs::remove_dir_all(dir.join(folder)).unwrap();
    }
    eventually("the plugin to go", || {
        plugin(&client, "mounted").is_none().then_some(())
    });
}

/// The names of the design's public original are settings away: the Task's group, the label of its Events, the view's group.
pub(crate) fn the_public_originals_names_work_by_settings_alone(environment: &Shared) {
    const GROUP: &str = "example.example.com";
    // Alone, and its Task not made by kubectl: for as long as there are two resources called `tasks`, kubectl takes (and
    // keeps in mind) the other one.
    let _gate = environment.alone();
    let (client, kubectl) = (Client::admin(environment), environment.kubectl());
    let manifest = environment.workspace().root().join("deploy/crd/task.yaml");
    let crd = fs::read_to_string(manifest)
        .unwrap()
        .replace("tasks.example.com", GROUP);
    kubectl.run_with_input(["apply", "-f", "-"], &crd).unwrap();
    let role = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "original"},
            "rules": [{"apiGroups": [GROUP], "resources": ["tasks"], "verbs": ["get", "list", "watch"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "original"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "original"},
            "subjects": [{"kind": "ServiceAccount", "name": "joinery", "namespace": SYSTEM}]},
    ]});
    kubectl
        .run_with_input(["apply", "-f", "-"], &role.to_string())
        .unwrap();
    let map = PluginMap::new(
        kubectl,
        "original",
        &component(environment, "combined_tasks"),
        "settings:\n  group: search.task.example.example.com\n  task:\n    group: example.example.com\n  \
         eventLabel: example.example.com/task-uid\n",
    );
    let namespace = Namespace::new(kubectl, "original");
    let mut task = crate::fixtures::task(&namespace.name, "first", 5);
    task["apiVersion"] = format!("{GROUP}/v1").into();
    let made = eventually("the Task to be made", || {
        let path = format!("/apis/{GROUP}/v1/namespaces/{}/tasks", namespace.name);
        let headers = [("Content-Type", "application/json")];
        let answer = client.send("POST", &path, &headers, task.to_string());
        (answer.status == 201).then(|| answer.json())
    });
    let mut event = crate::fixtures::event(&namespace.name, "told", &made);
    event["metadata"]["labels"] =
        json!({"example.example.com/task-uid": text(&made, "/metadata/uid")});
    namespace.create(&event);
    let path = format!(
        "/apis/search.task.example.example.com/v1/namespaces/{}/combinedtasks/first",
        namespace.name
    );
    let combined = eventually("the CombinedTask with its Event", || {
        let answer = client.get(&path);
        let combined = (answer.status == 200).then(|| answer.json())?;
        names_of(events_of(&combined))
            .contains(&"told")
            .then_some(combined)
    });
    assert_eq!(
        text(&combined, "/metadata/uid"),
        text(&made, "/metadata/uid")
    );
    map.delete();
    eventually("the plugin to go", || {
        plugin(&client, "original").is_none().then_some(())
    });
    kubectl
        .run(["delete", "crd", "tasks.example.example.com"])
        .unwrap();
    kubectl
        .run(["delete", "clusterrole,clusterrolebinding", "original"])
        .unwrap();
}

/// APIServices come and go with the plugins, change with their schemas, and are left alone where they are somebody else's.
pub(crate) fn api_services_follow_the_plugins(environment: &Shared) {
    let _gate = environment.alone();
    let (client, kubectl) = (Client::admin(environment), environment.kubectl());
    let service = |group: &str| {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/v1.{group}");
        let answer = client.get(&path);
        (answer.status == 200).then(|| answer.json())
    };
    let foreign = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.foreign.plugins.example.com"},
        "spec": {"group": "foreign.plugins.example.com", "version": "v1", "groupPriorityMinimum": 7, "versionPriority": 7,
            "service": {"name": "other", "namespace": "default"}, "insecureSkipTLSVerify": true},
    });
    kubectl
        .run_with_input(["create", "-f", "-"], &foreign.to_string())
        .unwrap();
    let old = component(environment, "combined_tasks");
    let theirs = "settings:\n  group: foreign.plugins.example.com\n";
    let stranger = PluginMap::new(kubectl, "foreign", &old, theirs);
    let told = with_reason(&client, "foreign", "NotPublished");
    assert!(
        text(&told, "/status/message").contains("not of this host"),
        "{told:#}"
    );
    let before = service("foreign.plugins.example.com").unwrap();
    assert_eq!(before["spec"]["groupPriorityMinimum"], 7);
    stranger.delete();
    eventually("the stranger to go", || {
        plugin(&client, "foreign").is_none().then_some(())
    });

    let ours = "settings:\n  group: schema.plugins.example.com\n";
    let map = PluginMap::new(kubectl, "schema", &old, ours);
    with_reason(&client, "schema", "Serving");
    let made = service("schema.plugins.example.com").unwrap();
    assert_eq!(
        made["metadata"]["labels"]["joinery.dev/service"],
        "joinery-system.joinery"
    );
    assert!(!text(&made, "/spec/caBundle").is_empty());
    let explained = |key: &str| {
        let root = client.get("/openapi/v3").json();
        let url = text(
            &root,
            "/paths/apis~1schema.plugins.example.com~1v1/serverRelativeURL",
        )
        .to_owned();
        !url.is_empty() && client.get(&url).text().contains(key)
    };
    eventually("the schema to be seen", || explained(OLD).then_some(()));
    let began = Instant::now();
    map.set_component(
        &client,
        &super::reload::replace(&old, OLD.as_bytes(), NEW.as_bytes()),
    );
    eventually("the new schema to be seen", || explained(NEW).then_some(()));
    // Compiling is not the aggregator's: it takes its time on a busy machine.
    assert!(began.elapsed() < AGGREGATED * 2, "{:?}", began.elapsed());

    // What others do to it is undone at once, not at the next look.
    let name = "v1.schema.plugins.example.com";
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
    for meddle in ["patch", "delete"] {
        let made = service("schema.plugins.example.com").unwrap();
        let began = Instant::now();
        match meddle {
            "patch" => {
                let patch = json!({"spec": {"versionPriority": 7}});
                let merge = [("Content-Type", "application/merge-patch+json")];
                client.send("PATCH", &path, &merge, patch.to_string())
            }
            _ => client.send("DELETE", &path, &[], ""),
        };
        eventually("the APIService to be as it was", || {
            let now = service("schema.plugins.example.com")?;
            let touched = now["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"];
            (touched && now["spec"] == made["spec"]).then_some(())
        });
        assert!(
            began.elapsed() < AGGREGATED,
            "{meddle}: {:?}",
            began.elapsed()
        );
    }

    let view = crate::fixtures::VIEW;
    let began = Instant::now();
    map.delete();
    eventually("the APIService to go", || {
        service("schema.plugins.example.com")
            .is_none()
            .then_some(())
    });
    assert!(began.elapsed() < AGGREGATED, "{:?}", began.elapsed());
    assert_eq!(client.get(&format!("{view}/combinedtasks")).status, 200);
    let after = service("foreign.plugins.example.com").unwrap();
    assert_eq!(after["spec"], before["spec"]);
    assert!(!after["metadata"]["resourceVersion"].is_null());
    kubectl
        .run(["delete", "apiservice", "v1.foreign.plugins.example.com"])
        .unwrap();
}

/// A view whose source is not there says what it waits for, and serves once it is there.
pub(crate) fn a_view_says_which_source_it_waits_for(environment: &Shared) {
    let _gate = environment.in_common();
    let (client, kubectl) = (Client::admin(environment), environment.kubectl());
    let component = component(environment, "combined_tasks");
    let settings = "settings:\n  group: waiting.plugins.example.com\n  task:\n    group: nowhere.plugins.example.com\n";
    let map = PluginMap::new(kubectl, "waiting", &component, settings);
    let told = with_reason(&client, "waiting", "SourceUnavailable");
    for name in ["SourcesFollowed", "Ready"] {
        let condition = condition(&told, name);
        assert_eq!(condition["status"], "False", "{told:#}");
        assert!(
            text(condition, "/message")
                .contains("nowhere.plugins.example.com/v1, tasks cannot be read"),
            "{told:#}"
        );
    }
    let event = eventually("an Event that says so", || {
        events_about(&client, SYSTEM, "plugin-waiting", "SourceUnavailable").pop()
    });
    assert!(event.contains("plugin waiting waits for"), "{event}");
    map.delete();
    eventually("the plugin to go", || {
        plugin(&client, "waiting").is_none().then_some(())
    });
}

/// A plugin that may go from under its objects: they block no namespace, and never appear in a namesake of theirs.
pub(crate) fn objects_of_a_plugin_that_went_do_not_outlive_their_namespace(environment: &Shared) {
    let _gate = environment.in_common();
    let (client, kubectl) = (Client::admin(environment), environment.kubectl());
    let component = component(environment, "custom_task");
    let settings = "removal: warn\nsettings:\n  group: leaving.plugins.example.com\n";
    let namespace = "leaving";
    let path = format!("/apis/leaving.plugins.example.com/v1/namespaces/{namespace}/customtasks");
    let serve = || {
        let map = PluginMap::new(kubectl, "leaving", &component, settings);
        eventually("the plugin to serve", || {
            (client.get(&path).status == 200).then_some(())
        });
        map
    };
    kubectl.run(["create", "namespace", namespace]).unwrap();
    let map = serve();
    let mut object = custom_task(namespace, "left");
    object["apiVersion"] = "leaving.plugins.example.com/v1".into();
    let json = [("Content-Type", "application/json")];
    let made = client.send("POST", &path, &json, object.to_string());
    assert_eq!(made.status, 201, "{}", made.text());
    map.delete();
    eventually("the plugin to go", || {
        (client.get(&path).status == 404).then_some(())
    });
    kubectl
        .run(["delete", "namespace", namespace, "--timeout=60s"])
        .unwrap();
    kubectl.run(["create", "namespace", namespace]).unwrap();
    let _map = serve();
    let list = client.get(&path).json();
    assert_eq!(list["items"], json!([]), "{list:#}");
    kubectl
        .run(["delete", "namespace", namespace, "--wait=false"])
        .unwrap();
}

/// A resource whose plugin answers the verbs itself, from a service that it may call: with kubectl it is as any other.
pub(crate) fn notes_of_a_service_are_a_resource_as_any_other(environment: &Shared) {
    let _gate = environment.in_common();
    let (client, kubectl) = (Client::admin(environment), environment.kubectl());
    let service = crate::note_service::NoteService::start();
    let settings = json!({
        "settings": {"group": "notes.plugins.example.com", "url": service.url()},
        "limits": {"watchSeconds": 1},
    });
    let map = PluginMap::new(
        kubectl,
        "notes",
        &component(environment, "notes"),
        &settings.to_string(),
    );
    let namespace = Namespace::new(kubectl, "notes");
    let path = format!(
        "/apis/notes.plugins.example.com/v1/namespaces/{}/notes",
        namespace.name
    );
    let list = eventually("the plugin to serve", || {
        let answer = client.get(&path);
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(
        (text(&list, "/kind"), &list["items"]),
        ("NoteList", &json!([]))
    );
    let found = with_reason(&client, "notes", "Serving");
    assert_eq!(text(&found, "/status/shape"), "served");
    let from = text(&list, "/metadata/resourceVersion");
    let mut watch = client
        .watch(&format!("{path}?watch=true&resourceVersion={from}"))
        .unwrap();

    let note = |name: &str, text: &str| {
        json!({
            "apiVersion": "notes.plugins.example.com/v1", "kind": "Note",
            "metadata": {"name": name, "namespace": namespace.name}, "spec": {"text": text},
        })
    };
    let made = namespace.create(&note("first", "one"));
    assert_eq!(made["spec"], json!({"text": "one", "topic": "general"}));
    let printed = namespace.run(&["get", "notes.notes.plugins.example.com"]);
    let line: Vec<&str> = printed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(line[..3], ["first", "general", "one"], "{printed}");
    let json = [("Content-Type", "application/json")];
    for (object, status, reason) in [
        (note("first", "again"), 409, "AlreadyExists"),
        (note("empty", ""), 422, "Invalid"),
    ] {
        let answer = client.send("POST", &path, &json, object.to_string());
        assert_eq!(
            (answer.status.as_u16(), text(&answer.json(), "/reason")),
            (status, reason)
        );
    }
    let dry = client.send(
        "POST",
        &format!("{path}?dryRun=All"),
        &json,
        note("dry", "x").to_string(),
    );
    assert_eq!(dry.status, 201, "{}", dry.text());
    assert_eq!(service.names(), [format!("{}/first", namespace.name)]);

    // Who read another version must read again.
    let merge = [("Content-Type", "application/merge-patch+json")];
    let one = format!("{path}/first");
    let patched = client.send("PATCH", &one, &merge, r#"{"spec":{"text":"two"}}"#);
    assert_eq!(patched.status, 200, "{}", patched.text());
    let mut late = made.clone();
    late["spec"]["text"] = "late".into();
    let late = client.send("PUT", &one, &json, late.to_string());
    assert_eq!(late.status, 409, "{}", late.text());
    service.change(&namespace.name, "first", "three");
    for (kind, said) in [("ADDED", "one"), ("MODIFIED", "two"), ("MODIFIED", "three")] {
        let frame = watch.next(PATIENCE).unwrap_or_else(|| panic!("no {said}"));
        assert_eq!(
            (text(&frame, "/type"), text(&frame, "/object/spec/text")),
            (kind, said)
        );
    }
    let other = note("second", "other");
    assert_eq!(
        client.send("POST", &path, &json, other.to_string()).status,
        201
    );
    let selected = client
        .get(&format!("{path}?fieldSelector=metadata.name%3Dsecond"))
        .json();
    assert_eq!(names_of(selected["items"].as_array().unwrap()), ["second"]);
    let deleted = client.send("DELETE", &one, &json, "{}");
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(client.get(&one).status, 404);
    watch.expect("the end of it in the watch", PATIENCE, |frame| {
        text(frame, "/type") == "DELETED" && text(frame, "/object/metadata/name") == "first"
    });
    // The namespace's end takes what the service has of it: discovery says that it can be deleted.
    kubectl
        .run(["delete", "namespace", &namespace.name, "--timeout=60s"])
        .unwrap();
    eventually("the service to be empty", || {
        service.names().is_empty().then_some(())
    });
    map.delete();
    eventually("the plugin to go", || {
        plugin(&client, "notes").is_none().then_some(())
    });
}
