//! The servers that are asked, and what their resources are called there.

use std::collections::HashMap;

use crate::client::Client;

/// One server with the two resources.
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) names: Names,
}

/// What differs between servers by name only. All `token`s are of one length, so that no answer's length depends on them.
#[derive(Clone)]
pub(super) struct Names {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) cluster_kind: &'static str,
    pub(super) cluster_plural: &'static str,
    /// In the names of namespaces and of objects without one.
    pub(super) token: &'static str,
    /// The guest writes conditions of its own.
    pub(super) has_guest: bool,
    /// A member of the spec that takes a digit.
    pub(super) member: &'static str,
}

/// Of the custom resources.
pub(super) const PEER: Names = Names {
    group: "peer.tasks.example.com",
    version: "v1",
    kind: "PeerTask",
    plural: "peertasks",
    cluster_kind: "PeerClusterTask",
    cluster_plural: "peerclustertasks",
    token: "pee0",
    has_guest: false,
    member: "priority",
};

const OURS: Names = Names {
    group: "aggregated.tasks.example.com",
    version: "v1",
    kind: "CustomTask",
    plural: "customtasks",
    cluster_kind: "ClusterTask",
    cluster_plural: "clustertasks",
    token: "agg0",
    has_guest: true,
    member: "priority",
};

/// Of sample-apiserver, whose Go types are its own.
pub(super) const SAMPLE: Names = Names {
    group: "wardle.example.com",
    version: "v1alpha1",
    kind: "Flunder",
    plural: "flunders",
    cluster_kind: "Fischer",
    cluster_plural: "fischers",
    token: "smp0",
    has_guest: false,
    member: "reference",
};

impl Target {
    /// sample-apiserver, asked directly.
    pub(super) fn sample(client: Client) -> Target {
        Target {
            client,
            names: SAMPLE,
        }
    }

    /// kube-apiserver's own.
    pub(super) fn peer(client: Client) -> Target {
        Target {
            client,
            names: PEER,
        }
    }

    /// Ours, through the aggregator.
    pub(super) fn aggregated(client: Client) -> Target {
        Target {
            client,
            names: OURS,
        }
    }

    /// Ours, from the host itself.
    pub(super) fn direct(client: Client) -> Target {
        Target {
            client,
            names: Names {
                token: "dir0",
                ..OURS
            },
        }
    }
}

/// What place holders stand for, from earlier answers too.
pub(super) struct Values<'a> {
    names: &'a Names,
    namespace: &'a str,
    /// `rv NAME`, `rv0 NAME` (the first), `uid NAME`, with `me` for the token in a name; of a list `rv` and `continue`.
    pub(super) seen: HashMap<String, String>,
}

impl<'a> Values<'a> {
    pub(super) fn new(names: &'a Names, namespace: &'a str) -> Values<'a> {
        Values {
            names,
            namespace,
            seen: HashMap::new(),
        }
    }

    pub(super) fn token(&self) -> &'a str {
        self.names.token
    }

    /// A text with all its place holders filled in.
    pub(super) fn fill(&self, text: &str) -> Vec<u8> {
        let mut filled = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("<<") {
            filled.extend_from_slice(before.as_bytes());
            let (holder, after) = after.split_once(">>").expect("an end of the place holder");
            match holder.strip_prefix("byte ") {
                Some(byte) => filled.push(u8::from_str_radix(byte, 16).unwrap()),
                None => filled.extend(self.value(holder).into_bytes()),
            }
            rest = after;
        }
        filled.extend_from_slice(rest.as_bytes());
        filled
    }

    fn value(&self, holder: &str) -> String {
        let Names {
            group,
            version,
            kind,
            plural,
            cluster_kind,
            cluster_plural,
            token,
            ..
        } = self.names;
        match holder {
            "group" => (*group).to_owned(),
            "gv" => format!("{group}/{version}"),
            "ns" => self.namespace.to_owned(),
            "me" => (*token).to_owned(),
            "Custom" => (*kind).to_owned(),
            "Cluster" => (*cluster_kind).to_owned(),
            "api" => format!("/apis/{group}/{version}"),
            "plural" => (*plural).to_owned(),
            "clusterplural" => (*cluster_plural).to_owned(),
            // The collection of this scenario's namespace, those of all, and those that have none.
            "custom" => format!(
                "/apis/{group}/{version}/namespaces/{}/{plural}",
                self.namespace
            ),
            "everywhere" => format!("/apis/{group}/{version}/{plural}"),
            "cluster" => format!("/apis/{group}/{version}/{cluster_plural}"),
            // The first members of an object.
            "head" => format!(r#""apiVersion":"{group}/{version}","kind":"{kind}""#),
            "chead" => format!(r#""apiVersion":"{group}/{version}","kind":"{cluster_kind}""#),
            "spec" => format!(r#""spec":{{{}}}"#, self.spec("1")),
            "yaml spec" => format!("spec: {{{}}}", self.spec("1")),
            _ => self.value_of_two(holder).unwrap_or_else(|| {
                let seen = self.seen.get(holder).cloned();
                seen.unwrap_or_else(|| format!("no-{}", holder.replace(' ', "-")))
            }),
        }
    }

    fn value_of_two(&self, holder: &str) -> Option<String> {
        let (what, rest) = holder.split_once(' ')?;
        Some(match what {
            "spec" => format!(r#""spec":{{{}}}"#, self.spec(rest)),
            "members" => self.members(rest),
            "repeat" => {
                let (text, times) = rest.rsplit_once(' ').unwrap();
                text.repeat(times.parse().unwrap())
            }
            _ => return None,
        })
    }

    /// A valid spec that differs with the digit.
    fn spec(&self, digit: &str) -> String {
        let members = self.members(digit);
        if self.names.member == SAMPLE.member {
            return members;
        }
        format!(r#"{members},"deadline":"2099-01-01T00:00:00Z""#)
    }

    fn members(&self, digit: &str) -> String {
        let member = self.names.member;
        if member == SAMPLE.member {
            return format!(r#""{member}":"{digit}""#);
        }
        format!(r#""{member}":{digit}"#)
    }
}
