//! Where the next page of a list begins, as an opaque text.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use joinery_object::{ObjectKey, Status};
use serde::{Deserialize, Serialize};

/// Goes with the form of the token, so that a later form can be told from it.
const VERSION: &str = "joinery/v1";

/// After which object the next page begins, and at which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// None: whatever is the latest then, for the remainder of a list whose version is gone.
    pub(crate) version: Option<String>,
    /// The last object of the page before.
    pub(crate) after: ObjectKey,
    /// How many objects of the list come after it, where that is known.
    pub(crate) left: Option<Left>,
    /// The token of upstream's page, for a list that is read live.
    pub(crate) upstream: Option<String>,
}

/// How many objects come after a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Left {
    pub(crate) count: u64,
    /// Of a list of this namespace; none: of all. A token goes on in another list too, where it says nothing of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rv: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<Left>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
}

impl ContinueToken {
    /// As a client keeps it.
    pub(crate) fn encode(&self) -> String {
        let wire = Wire {
            v: VERSION.to_owned(),
            rv: self.version.clone(),
            namespace: self.after.namespace.as_deref().map(str::to_owned),
            name: self.after.name.to_string(),
            left: self.left.clone(),
            upstream: self.upstream.clone(),
        };
        // Strings and a number: this cannot fail.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    /// What [`ContinueToken::encode`] wrote, for a list of this namespace.
    ///
    /// # Errors
    /// 400 for anything else.
    pub(crate) fn decode(token: &str, namespace: Option<&str>) -> Result<Self, Status> {
        let invalid = |detail: String| {
            Status::bad_request(format!(
                "continue key is not valid: {detail}; send the token of the page before as it was"
            ))
        };
        let text = URL_SAFE_NO_PAD
            .decode(token)
            .map_err(|error| invalid(error.to_string()))?;
        let wire: Wire =
            serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
        if wire.v != VERSION {
            return Err(invalid(format!(
                "server does not recognize this encoded version {}",
                wire.v
            )));
        }
        if namespace.is_some() && wire.namespace.as_deref() != namespace {
            return Err(invalid("it is one of another namespace".to_owned()));
        }
        Ok(Self {
            version: wire.rv,
            left: wire.left,
            upstream: wire.upstream,
            after: ObjectKey::new(wire.namespace.as_deref(), &wire.name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_in_its_own_namespace_only() {
        for version in [None, Some("7".to_owned())] {
            let token = ContinueToken {
                left: version.as_ref().map(|_| Left {
                    count: 3,
                    of: Some("n".to_owned()),
                }),
                version,
                upstream: None,
                after: ObjectKey::new(Some("n"), "a"),
            };
            let text = token.encode();
            assert_eq!(ContinueToken::decode(&text, Some("n")), Ok(token.clone()));
            assert_eq!(ContinueToken::decode(&text, None), Ok(token));
            assert_eq!(
                ContinueToken::decode(&text, Some("m")).unwrap_err().code,
                400
            );
        }
        for bad in ["", "x", "%", "e30"] {
            assert_eq!(
                ContinueToken::decode(bad, None).unwrap_err().code,
                400,
                "{bad}"
            );
        }
    }
}
