//! Content negotiation, as k8s.io/apiserver/pkg/endpoints/handlers/negotiation.
//!
//! A client sends what it can read, best first: `application/json;as=Table;v=v1;g=meta.k8s.io,application/json`. The
//! first clause that this server can speak decides. protobuf and CBOR are not among what it speaks, so their clauses are
//! passed over; when nothing is left, the answer is 406.

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};
use joinery_object::{Query, Status};

/// One clause of an Accept header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clause {
    /// `application/json`, `*/*`; lower case.
    pub(crate) media_type: String,
    parameters: Vec<(String, String)>,
    quality: f32,
}

impl Clause {
    /// A parameter's value; empty when it is missing.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.parameters
            .iter()
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value)
    }

    /// Whether this media type is what the clause names, or falls under its wildcard.
    pub(crate) fn accepts(&self, media_type: &str) -> bool {
        let (kind, _) = media_type.split_once('/').unwrap_or((media_type, ""));
        self.media_type == media_type
            || self.media_type == "*/*"
            || self
                .media_type
                .strip_suffix("/*")
                .is_some_and(|wanted| wanted == kind)
    }

    /// More exact clauses go before wildcards of the same quality.
    fn specificity(&self) -> u8 {
        match self.media_type.as_str() {
            "*/*" => 0,
            wild if wild.ends_with("/*") => 1,
            _ => 2,
        }
    }
}

/// The clauses of all Accept headers, most wanted first; without a header just `*/*`. ⚠ As in Go, `q=0` is the
/// least wanted and not refused.
pub(crate) fn clauses(headers: &HeaderMap) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(clause)
        .collect();
    if clauses.is_empty() && headers.get_all(ACCEPT).iter().all(|v| v.is_empty()) {
        clauses.extend(clause("*/*"));
    }
    // Stable: clauses of the same quality stay in the client's order.
    clauses.sort_by(|a, b| {
        b.quality
            .total_cmp(&a.quality)
            .then(b.specificity().cmp(&a.specificity()))
    });
    clauses
}

fn clause(text: &str) -> Option<Clause> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().filter(|m| m.contains('/') || *m == "*")?;
    let media_type = if media_type == "*" { "*/*" } else { media_type };
    let mut quality = 1.0;
    let mut parameters = Vec::new();
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim().trim_matches('"');
        if key.eq_ignore_ascii_case("q") {
            quality = value.parse().unwrap_or(1.0);
        } else {
            parameters.push((key.trim().to_ascii_lowercase(), value.to_owned()));
        }
    }
    Some(Clause {
        media_type: media_type.to_ascii_lowercase(),
        parameters,
        quality,
    })
}

/// How the text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// The format of an error: the first that the client can read, in whatever shape it wants objects, and JSON for who can read none.
pub(crate) fn error_format(headers: &HeaderMap) -> Format {
    const FORMATS: [(&str, Format); 2] = [
        ("application/json", Format::Json),
        ("application/yaml", Format::Yaml),
    ];
    let readable = |clause: &Clause| {
        let mut formats = FORMATS.into_iter();
        formats.find(|(media_type, _)| clause.accepts(media_type))
    };
    let first = clauses(headers).iter().find_map(readable);
    first.map_or(Format::Json, |(_, format)| format)
}

/// The version of meta.k8s.io that a transformation is wanted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What objects are turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As they are.
    Object,
    Table(MetaVersion),
    /// PartialObjectMetadata, or its list for a list.
    Metadata(MetaVersion),
}

/// What the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Representation {
    pub(crate) format: Format,
    pub(crate) shape: Shape,
    pub(crate) pretty: bool,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const JSON_STREAM: &str = "application/json;stream=watch";

/// The representation for a verb's answer.
///
/// # Errors
/// 406 when no clause can be met: no known media type, a transformation that this verb's answer does not have
/// (PartialObjectMetadata of a list, its list of an object), or a watch in YAML.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    verb: &str,
) -> Result<Representation, Status> {
    let watch = verb == "watch";
    let metadata = match verb {
        "list" | "deletecollection" => "PartialObjectMetadataList",
        _ => "PartialObjectMetadata",
    };
    for clause in clauses(headers) {
        let format = if clause.accepts(JSON) {
            Format::Json
        } else if clause.accepts(YAML) {
            Format::Yaml
        } else {
            continue;
        };
        // Only what has a way to write streams knows this parameter, but then for single objects as well.
        let stream = clause.parameter("stream");
        if !(stream.is_empty() || format == Format::Json && stream == "watch") {
            continue;
        }
        let Some(shape) = shape(&clause, metadata) else {
            continue;
        };
        if watch && format == Format::Yaml {
            // As upstream: what is wanted first decides, and this has no frames.
            return Err(Status::not_acceptable(&[JSON_STREAM]));
        }
        let pretty = clause.parameter("pretty") == "1" || wants_pretty(headers, query);
        return Ok(Representation {
            format,
            shape,
            pretty: pretty && !watch,
        });
    }
    Err(Status::not_acceptable(&[JSON, YAML]))
}

/// None: not a transformation of this answer.
fn shape(clause: &Clause, metadata: &str) -> Option<Shape> {
    let kind = clause.parameter("as");
    if kind.is_empty() {
        // A group or version without a kind names nothing.
        let stray = !clause.parameter("g").is_empty() || !clause.parameter("v").is_empty();
        return (!stray).then_some(Shape::Object);
    }
    if clause.parameter("g") != "meta.k8s.io" {
        return None;
    }
    let version = match clause.parameter("v") {
        "v1" => MetaVersion::V1,
        "v1beta1" => MetaVersion::V1Beta1,
        _ => return None,
    };
    match kind {
        "Table" => Some(Shape::Table(version)),
        _ if kind == metadata => Some(Shape::Metadata(version)),
        _ => None,
    }
}

/// Whether a person reads it: `?pretty=`, or the User-Agent of a tool for people.
pub(crate) fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    match query.get("pretty") {
        "" => {}
        value => return matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
    let agent = headers
        .get(USER_AGENT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|tool| agent.starts_with(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(accept: &str, verb: &str) -> Result<Representation, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        negotiate(&headers, &Query::default(), verb)
    }

    fn plain(format: Format, shape: Shape) -> Representation {
        Representation {
            format,
            shape,
            pretty: false,
        }
    }

    #[test]
    fn the_first_clause_that_can_be_met_decides() {
        let list_of_gc = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
            application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
            application/json";
        let metadata = Shape::Metadata(MetaVersion::V1);
        for (accept, verb, expected) in [
            ("", "get", plain(Format::Json, Shape::Object)),
            ("*/*", "get", plain(Format::Json, Shape::Object)),
            ("application/*", "list", plain(Format::Json, Shape::Object)),
            (
                "application/yaml",
                "get",
                plain(Format::Yaml, Shape::Object),
            ),
            (
                "application/json;q=0.1,application/yaml",
                "get",
                plain(Format::Yaml, Shape::Object),
            ),
            (
                "application/json;q=0,application/yaml;q=0.1",
                "get",
                plain(Format::Yaml, Shape::Object),
            ),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                "get",
                plain(Format::Json, Shape::Object),
            ),
            (list_of_gc, "list", plain(Format::Json, metadata)),
            (list_of_gc, "get", plain(Format::Json, Shape::Object)),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                "watch",
                plain(Format::Json, metadata),
            ),
            (
                kubectl,
                "list",
                plain(Format::Json, Shape::Table(MetaVersion::V1)),
            ),
            (
                "application/json;stream=watch",
                "watch",
                plain(Format::Json, Shape::Object),
            ),
            (
                "application/json;stream=watch",
                "list",
                plain(Format::Json, Shape::Object),
            ),
            (
                "application/json;q=0",
                "get",
                plain(Format::Json, Shape::Object),
            ),
            ("*/*;q=0", "watch", plain(Format::Json, Shape::Object)),
            (
                "application/json;q=x",
                "get",
                plain(Format::Json, Shape::Object),
            ),
        ] {
            assert_eq!(of(accept, verb), Ok(expected), "{accept} {verb}");
        }
    }

    #[test]
    fn what_cannot_be_spoken_is_406() {
        for (accept, verb) in [
            ("application/vnd.kubernetes.protobuf", "get"),
            ("application/cbor", "list"),
            ("text/html", "get"),
            ("application/yaml", "watch"),
            ("application/yaml,application/json", "watch"),
            ("application/yaml;stream=watch", "list"),
            ("application/json;stream=foo", "list"),
            ("application/json;v=v1", "list"),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                "list",
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                "get",
            ),
            ("application/json;as=Table;g=meta.k8s.io;v=v2", "list"),
            ("application/json;as=Chair;g=meta.k8s.io;v=v1", "list"),
        ] {
            assert_eq!(of(accept, verb).unwrap_err().code, 406, "{accept} {verb}");
        }
    }

    #[test]
    fn people_get_it_pretty() {
        let pretty = |agent: &'static str, query: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, agent.parse().unwrap());
            wants_pretty(&headers, &Query::parse(query))
        };
        assert!(pretty("curl/8", ""));
        assert!(!pretty("curl/8", "pretty=false"));
        assert!(!pretty("kubectl/v1.36", ""));
        assert!(pretty("kubectl/v1.36", "pretty=true"));
    }
}
