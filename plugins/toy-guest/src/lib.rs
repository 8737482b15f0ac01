//! Speaks the toy contract of host/plugin/tests/wit/v0.2, with wit-bindgen alone: it shows that a host can have two.

mod bindings {
    #![allow(missing_docs, unreachable_pub, clippy::all, unsafe_code)]
    wit_bindgen::generate!({
        path: "../../host/plugin/tests/wit/v0.2",
        world: "joinery:plugin/toy",
    });
    export!(Toy);
    use super::Toy;
}

use bindings::exports::joinery::plugin::{admission, setup};
use bindings::joinery::plugin::log;

struct Toy;

impl setup::Guest for Toy {
    fn configure(settings: String) -> Result<(), setup::Refusal> {
        if settings.is_empty() {
            return Ok(());
        }
        Err(setup::Refusal {
            field: "settings".into(),
            message: "there are none".into(),
        })
    }

    fn describe() -> Vec<setup::ApiResource> {
        vec![setup::ApiResource {
            group: "toy.example.com".into(),
            version: "v1".into(),
            kind: "Toy".into(),
            plural: "toys".into(),
            scope: setup::Scope::Namespaced,
            schema: r#"{"type":"object"}"#.into(),
        }]
    }
}

impl admission::Guest for Toy {
    /// Says what it was told, in the place of the object.
    fn decide(review: admission::Review) -> Result<Vec<u8>, String> {
        log::write(&format!("deciding about {}", review.name));
        if review.object.is_none() {
            return Err("nothing is deleted".into());
        }
        let (name, purpose) = (review.name, review.purpose);
        Ok(format!(r#"{{"name":"{name}","purpose":"{purpose}"}}"#).into_bytes())
    }
}
