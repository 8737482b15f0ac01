//! Behind a real etcd, kube-apiserver and kube-controller-manager.

mod clients;
mod differential;
mod ownership;

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::checks::{checks, checks_of_both, stored};
use crate::client::Client;
use crate::fixtures::{Namespace, VIEW, event, events_of, names_of, text};
use crate::pages;
use crate::shared::{Shared, cluster};

const PATIENCE: Duration = Duration::from_secs(20);

checks_of_both! { cluster }

checks! {
    cluster;
    plugins::the_public_originals_names_work_by_settings_alone,
    plugins::api_services_follow_the_plugins,
    plugins::objects_of_a_plugin_that_went_do_not_outlive_their_namespace,
    upstream::a_cached_list_costs_no_upstream_list_and_a_live_one_two,
}

#[test]
fn the_tutorial_as_written_ends_with_a_new_resource() {
    pages::the_tutorial_as_written_ends_with_a_new_resource(cluster());
}

#[test]
fn the_apiservice_is_available() {
    let environment = cluster();
    let _gate = environment.in_common();
    let printed = environment.kubectl().run(["get", "apiservices"]).unwrap();
    let line = printed
        .lines()
        .find(|line| line.starts_with("v1.aggregated.tasks.example.com"))
        .unwrap_or_default();
    assert_eq!(line.split_whitespace().nth(2), Some("True"), "{printed}");
}

/// The namespace controller lists and deletes what discovery names; a server that answers it badly keeps every namespace for ever.
#[test]
fn a_deleted_namespace_finishes_and_the_controller_manager_complains_of_nothing() {
    let environment = cluster();
    stored::a_deleted_namespace_takes_its_objects_with_it(environment);
    let log =
        fs::read_to_string(&environment.control_plane_logs().unwrap().controller_manager).unwrap();
    let complaints: Vec<&str> = log
        .lines()
        .filter(|line| line.starts_with('E') && line.contains("tasks.example.com"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// kube-apiserver merges the host's OpenAPI with its own, and serves version 3 from the host itself.
#[test]
fn openapi_goes_through_the_aggregator_without_a_complaint() {
    let environment = cluster();
    let _gate = environment.in_common();
    let client = Client::admin(environment);
    let path = format!("{VIEW}/namespaces/{{namespace}}/combinedtasks/{{name}}");
    crate::fixtures::eventually("OpenAPI v2 with the view in it", || {
        let document = client.get("/openapi/v2").json();
        (!document["paths"][&path]["get"].is_null()).then_some(())
    });
    let root = client.get("/openapi/v3").json();
    let url = text(
        &root,
        "/paths/apis~1aggregated.tasks.example.com~1v1/serverRelativeURL",
    );
    assert!(url.contains("hash="), "{root}");
    let document = client.get(url).json();
    let methods = document["paths"][&path].as_object().unwrap();
    assert!(
        methods.contains_key("get") && !methods.contains_key("delete"),
        "{methods:?}"
    );
    let log = fs::read_to_string(&environment.control_plane_logs().unwrap().apiserver).unwrap();
    // A line that names a request is about a client that left before its answer
    // (kubectl does, when it has seen enough), not about a specification.
    let complaints: Vec<&str> = log
        .lines()
        .filter(|line| line.starts_with(['E', 'W']))
        .filter(|line| line.to_ascii_lowercase().contains("openapi"))
        // An APIService with nobody behind it, which another test makes.
        .filter(|line| !line.contains("foreign.plugins.example.com"))
        .filter(|line| !line.contains("method="))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// Rights of the caller (the default): the 403 names the source that may not be read.
#[test]
fn who_may_not_list_events_is_told_so() {
    let environment = cluster();
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "invoker");
    namespace.task("guarded");
    let user = "no-events@example.com";
    grant(
        &namespace,
        user,
        &[
            ("aggregated.tasks.example.com", "combinedtasks"),
            ("tasks.example.com", "tasks"),
        ],
    );
    let said = refused(environment, &namespace, user, &["get", "combinedtasks"]);
    assert!(said.contains("events"), "{said}");
    let said = refused(
        environment,
        &namespace,
        user,
        &["get", "combinedtask", "guarded"],
    );
    assert!(said.contains("events"), "{said}");

    let other = "no-tasks@example.com";
    grant(
        &namespace,
        other,
        &[
            ("aggregated.tasks.example.com", "combinedtasks"),
            ("", "events"),
        ],
    );
    let said = refused(environment, &namespace, other, &["get", "combinedtasks"]);
    assert!(said.contains("tasks.tasks.example.com"), "{said}");

    let everything = "everything@example.com";
    grant(
        &namespace,
        everything,
        &[
            ("aggregated.tasks.example.com", "combinedtasks"),
            ("tasks.example.com", "tasks"),
            ("", "events"),
        ],
    );
    assert!(
        as_user(
            environment,
            &namespace,
            everything,
            &["get", "combinedtasks", "-o", "name"]
        )
        .unwrap()
        .contains("guarded")
    );
    let said = String::from_utf8_lossy(
        &environment
            .kubectl()
            .output(["--as", everything, "get", "combinedtasks", "-A"])
            .unwrap()
            .stderr,
    )
    .into_owned();
    assert!(
        said.contains("Forbidden"),
        "the rights are one namespace's: {said}"
    );
}

/// Rights of the definer (the operator's choice): leave for the view is enough, and nothing less.
#[test]
fn with_definer_rights_leave_for_the_view_is_enough() {
    let environment = cluster();
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "definer");
    namespace.task("open");
    namespace.combined("open", "the controller's first Event", |events| {
        !events.is_empty()
    });
    let user = "view-only@example.com";
    grant(
        &namespace,
        user,
        &[("aggregated.tasks.example.com", "combinedtasks")],
    );

    let host = environment.side_host("definer").unwrap();
    fs::write(
        host.plugin_dir().join("combined_tasks.yaml"),
        "security: definer\n",
    )
    .unwrap();
    let path = format!("{VIEW}/namespaces/{}/combinedtasks", namespace.name);
    let client = Client::front_proxy(environment, host.url(), user, &["system:authenticated"]);
    let list = crate::fixtures::eventually("the definer's rights to hold", || {
        let answer = client.get(&path);
        (answer.status == 200).then(|| answer.json())
    });
    assert!(
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|item| !events_of(item).is_empty()),
        "{list:#}"
    );

    let stranger = Client::front_proxy(
        environment,
        host.url(),
        "stranger@example.com",
        &["system:authenticated"],
    );
    let answer = stranger.get(&path);
    assert_eq!(
        (answer.status.as_u16(), text(&answer.json(), "/reason")),
        (403, "Forbidden")
    );
}

/// X-Remote-* headers count only behind the front proxy's certificate.
#[test]
fn without_the_front_proxys_certificate_its_headers_are_nothing() {
    let environment = cluster();
    let _gate = environment.in_common();
    let path = format!("{VIEW}/combinedtasks");
    let masters = [
        ("X-Remote-User", "admin"),
        ("X-Remote-Group", "system:masters"),
    ];
    let proxy = Client::front_proxy(environment, environment.url(), "admin", &["system:masters"]);
    assert_eq!(proxy.get(&path).status, 200);
    let nobody = Client::front_proxy(environment, environment.url(), "", &[]).anonymous();
    let answer = nobody.send("GET", &path, &masters, "");
    assert!(
        [401, 403].contains(&answer.status.as_u16()),
        "{} {}",
        answer.status,
        answer.text()
    );
    // A certificate of the other authority proves who its owner is, and not that they may speak for others.
    let answer = Client::direct(environment).send(
        "GET",
        &path,
        &[
            ("X-Remote-User", "nobody@example.com"),
            ("X-Remote-Group", "none"),
        ],
        "",
    );
    assert_eq!(
        answer.status,
        200,
        "the administrator's own rights: {}",
        answer.text()
    );
}

/// A client that watches, loses its host, and goes on where it was: no change is missing, and it need not list again.
#[test]
fn a_watch_resumed_after_a_restart_of_the_host_misses_nothing() {
    let environment = cluster();
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "restart");
    let host = environment.side_host("restart").unwrap();
    let client = Client::of_kubeconfig(host.direct());
    let path = format!("{VIEW}/namespaces/{}/combinedtasks", namespace.name);
    let mut position = text(&client.get(&path).json(), "/metadata/resourceVersion").to_owned();

    for crash in [false, true] {
        let name = if crash { "crash" } else { "restart" };
        let mut watch = client
            .watch(&format!("{path}?watch=true&resourceVersion={position}"))
            .unwrap_or_else(|answer| panic!("{}", answer.text()));
        let made = namespace.task(&format!("{name}-before"));
        let frame = watch.expect("the Task before", PATIENCE, |frame| {
            text(frame, "/object/metadata/name") == format!("{name}-before")
        });
        position = text(&frame, "/object/metadata/resourceVersion").to_owned();

        std::thread::scope(|scope| {
            let restarted = scope.spawn(|| host.restart(crash).unwrap());
            namespace.task(&format!("{name}-meanwhile"));
            namespace.create(&event(&namespace.name, &format!("{name}-event"), &made));
            restarted.join().unwrap();
        });
        namespace.task(&format!("{name}-after"));

        let mut watch = client
            .watch(&format!("{path}?watch=true&resourceVersion={position}"))
            .unwrap_or_else(|answer| panic!("{}", answer.text()));
        let mut missing = vec![
            format!("{name}-meanwhile"),
            format!("{name}-after"),
            format!("{name}-event"),
        ];
        while !missing.is_empty() {
            let frame = watch
                .next(PATIENCE)
                .unwrap_or_else(|| panic!("missing after the restart: {missing:?}"));
            assert_ne!(text(&frame, "/type"), "ERROR", "{frame}");
            let object = &frame["object"];
            missing.retain(|wanted| {
                text(object, "/metadata/name") != wanted
                    && !names_of(events_of(object)).contains(&wanted.as_str())
            });
            position = text(object, "/metadata/resourceVersion").to_owned();
        }
    }
}

/// Replicas: a resourceVersion of one is understood by the other.
#[test]
fn listing_from_one_host_and_watching_from_another_misses_nothing() {
    let environment = cluster();
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "replicas");
    let other = environment.side_host("replica").unwrap();
    let (first, second) = (
        Client::direct(environment),
        Client::of_kubeconfig(other.direct()),
    );
    let path = format!("{VIEW}/namespaces/{}/combinedtasks", namespace.name);
    for round in 0..crate::shared::count(100) {
        let (from, to) = if round % 2 == 0 {
            (&first, &second)
        } else {
            (&second, &first)
        };
        let list = from.get(&path).json();
        let position = text(&list, "/metadata/resourceVersion").to_owned();
        let name = format!("round-{round}");
        namespace.task(&name);
        let mut watch = to
            .watch(&format!("{path}?watch=true&resourceVersion={position}"))
            .unwrap_or_else(|answer| panic!("{}", answer.text()));
        let frame = watch.expect(&name, PATIENCE, |frame| {
            assert_ne!(text(frame, "/type"), "ERROR", "{frame}");
            text(frame, "/object/metadata/name") == name
        });
        assert!(
            larger(text(&frame, "/object/metadata/resourceVersion"), &position),
            "{frame}"
        );
    }
}

/// Who may do what: `verbs` for one user, on `(group, resource)`s of one namespace, get, list and watch each.
fn grant(namespace: &Namespace<'_>, user: &str, resources: &[(&str, &str)]) {
    let name = user.split('@').next().unwrap_or(user);
    let rules: Vec<Value> = resources
        .iter()
        .map(|(group, resource)| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"] }))
        .collect();
    namespace.create(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "namespace": namespace.name, "name": name }, "rules": rules,
    }));
    namespace.create(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "namespace": namespace.name, "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    }));
}

fn as_user(
    environment: &Shared,
    namespace: &Namespace<'_>,
    user: &str,
    arguments: &[&str],
) -> anyhow::Result<String> {
    let mut all = vec!["--as", user, "-n", namespace.name.as_str()];
    all.extend(arguments);
    environment.kubectl().run(all)
}

fn refused(
    environment: &Shared,
    namespace: &Namespace<'_>,
    user: &str,
    arguments: &[&str],
) -> String {
    let error = as_user(environment, namespace, user, arguments).expect_err("a refusal");
    let said = format!("{error:#}");
    assert!(said.contains("Forbidden"), "{said}");
    said
}

/// Decimal integers of any length.
fn larger(one: &str, other: &str) -> bool {
    (one.len(), one) > (other.len(), other)
}
