//! Namespaces are a boundary for views too.

use crate::client::Client;
use crate::fixtures::{Namespace, VIEW, event, events_of, names_of};
use crate::shared::Shared;

/// Who may write Events in one namespace cannot plant them in another namespace's Tasks by their uid.
pub(crate) fn an_event_forged_in_another_namespace_stays_out(environment: &Shared) {
    let _gate = environment.in_common();
    let (victim, forger) = (
        Namespace::new(environment.kubectl(), "victim"),
        Namespace::new(environment.kubectl(), "forger"),
    );
    let task = victim.task("target");
    let twin = forger.task("target");
    forger.create(&event(&forger.name, "forged", &task));
    // Written later and seen: so the forged one has been looked at too.
    victim.create(&event(&victim.name, "genuine", &task));
    forger.create(&event(&forger.name, "its-own", &twin));
    let combined = victim.combined("target", "the genuine Event", |events| {
        names_of(events).contains(&"genuine")
    });
    forger.combined("target", "the forger's own Event", |events| {
        names_of(events).contains(&"its-own")
    });
    assert!(
        !names_of(events_of(&combined)).contains(&"forged"),
        "{combined:#}"
    );

    let everywhere = Client::admin(environment)
        .get(&format!("{VIEW}/combinedtasks"))
        .text();
    assert!(
        everywhere.contains("genuine") && !everywhere.contains("\"forged\""),
        "planted in a list over all namespaces"
    );
}
