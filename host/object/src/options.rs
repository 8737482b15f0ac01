//! What a request asks for besides its path: `metav1.ListOptions` and the options of the writes.
//!
//! Read from the query string, as `k8s.io/apimachinery` converts it: a boolean is true unless it says `0` or `false`, a
//! number that is none is a 400, options that contradict each other are a 422 of `ListOptions.meta.k8s.io`.

use std::collections::HashMap;

use serde::Deserialize;

use crate::{Cause, FieldSelector, LabelSelector, Status};

/// Of `ListOptions`, `CreateOptions` and so on.
const META_GROUP: &str = "meta.k8s.io";

/// A decoded query string. Of a parameter given twice the first counts, as in Go, except for lists.
#[derive(Clone, Debug, Default)]
pub struct Query(HashMap<String, Vec<String>>);

impl Query {
    /// Reads `a=b&c=d`, with percent and plus encoding. Empty for no query.
    pub fn parse(query: &str) -> Self {
        let mut parameters: HashMap<String, Vec<String>> = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            parameters
                .entry(name.into_owned())
                .or_default()
                .push(value.into_owned());
        }
        Self(parameters)
    }

    /// The first value of a parameter; empty when it is missing.
    pub fn get(&self, name: &str) -> &str {
        self.all(name).first().map_or("", String::as_str)
    }

    /// Whether the parameter is there, if only as `name` or `name=`.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// None when the parameter is missing.
    pub fn boolean(&self, name: &str) -> Option<bool> {
        let value = self.all(name).first()?.to_ascii_lowercase();
        Some(value != "0" && value != "false")
    }

    fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        let text = self.get(name);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            Status::bad_request(format!(
                "{name}: Invalid value: {text:?}: must be an integer"
            ))
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        Some(self.get(name))
            .filter(|t| !t.is_empty())
            .map(str::to_owned)
    }
}

/// How `resourceVersion` is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// At just this version, or 410.
    Exact,
    /// At this version or a later one.
    NotOlderThan,
}

/// `metav1.ListOptions`, validated: what a list, a watch or a deletecollection is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Empty for all.
    pub label_selector: LabelSelector,
    /// Empty for all. Its fields are not yet checked against the resource's.
    pub field_selector: FieldSelector,
    /// A watch rather than a list.
    pub watch: bool,
    /// A watch may get bookmarks.
    pub allow_watch_bookmarks: bool,
    /// None: latest. Decimal digits otherwise, of any length; `0` is any.
    pub resource_version: Option<String>,
    /// None: what the version and the limit imply.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// A watch's lifetime in seconds, or a list's time limit. None or 0: the server's choice.
    pub timeout_seconds: Option<u32>,
    /// At most so many items a page. 0: all, as of any list at version `0`.
    pub limit: usize,
    /// The token of an earlier page.
    pub continue_token: Option<String>,
    /// A watch begins with the state, as ADDED events.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and validates them.
    ///
    /// # Errors
    /// 400 for what cannot be read (selectors, numbers, a resource version that is no number, a continue token with a
    /// resource version), 422 for options that contradict each other.
    pub fn from_query(query: &Query) -> Result<Self, Status> {
        Self::read(query, query.boolean("watch").unwrap_or_default())
    }

    /// As [`Self::from_query`], where the path decides whether it is a watch.
    ///
    /// # Errors
    /// The same.
    pub fn read(query: &Query, watch: bool) -> Result<Self, Status> {
        let text_match = query.get("resourceVersionMatch");
        let mut options = Self {
            label_selector: query.get("labelSelector").parse()?,
            field_selector: query.get("fieldSelector").parse()?,
            watch,
            allow_watch_bookmarks: query.boolean("allowWatchBookmarks").unwrap_or_default(),
            resource_version: query.text("resourceVersion"),
            resource_version_match: match text_match {
                "Exact" => Some(ResourceVersionMatch::Exact),
                "NotOlderThan" => Some(ResourceVersionMatch::NotOlderThan),
                _ => None,
            },
            timeout_seconds: query
                .integer("timeoutSeconds")?
                .map(|s| u32::try_from(s.max(0)).unwrap_or(u32::MAX)),
            limit: query
                .integer("limit")?
                .map_or(0, |limit| usize::try_from(limit).unwrap_or_default()),
            continue_token: query.text("continue"),
            send_initial_events: query.boolean("sendInitialEvents"),
        };
        let causes = if options.watch {
            options.check_watch(text_match)
        } else {
            options.check_list(text_match)
        };
        check("ListOptions", causes)?;
        options.check_version()?;
        // As kube-apiserver's watch cache, which answers a list at any version whole (`computeListLimit`).
        if options.resource_version.as_deref() == Some("0") {
            options.limit = 0;
        }
        Ok(options)
    }

    /// Whether the version may be exceeded by nothing: asked for, or implied by a limit.
    pub fn is_exact(&self) -> bool {
        match self.resource_version_match {
            Some(how) => how == ResourceVersionMatch::Exact,
            None => self.limit > 0 && self.resource_version.as_deref().is_some_and(|v| v != "0"),
        }
    }

    fn check_list(&self, text_match: &str) -> Vec<Cause> {
        const MATCH: &str = "resourceVersionMatch";
        let mut causes = Vec::new();
        if !text_match.is_empty() {
            if self.resource_version.is_none() {
                causes.push(Cause::forbidden(
                    MATCH,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if self.continue_token.is_some() {
                causes.push(Cause::forbidden(
                    MATCH,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            match self.resource_version_match {
                None => causes.push(Cause::not_supported(
                    MATCH,
                    text_match,
                    &["Exact", "NotOlderThan", ""],
                )),
                Some(ResourceVersionMatch::Exact)
                    if self.resource_version.as_deref() == Some("0") =>
                {
                    causes.push(Cause::forbidden(
                        MATCH,
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                    ));
                }
                Some(_) => {}
            }
        }
        if self.send_initial_events.is_some() {
            causes.push(Cause::forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
        causes
    }

    fn check_watch(&self, text_match: &str) -> Vec<Cause> {
        const MATCH: &str = "resourceVersionMatch";
        let not_older = self.resource_version_match == Some(ResourceVersionMatch::NotOlderThan);
        let mut causes = Vec::new();
        if self.send_initial_events.is_some() && !not_older {
            causes.push(Cause::forbidden(
                MATCH,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if !text_match.is_empty() {
            if self.send_initial_events.is_none() {
                causes.push(Cause::forbidden(
                    MATCH,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if !not_older {
                causes.push(Cause::not_supported(MATCH, text_match, &["NotOlderThan"]));
            }
        }
        // A watch from no version in particular gets initial events and a match of its own (SetListOptionsDefaults).
        let version = self.resource_version.as_deref().unwrap_or("0");
        let matches =
            !text_match.is_empty() || self.send_initial_events.is_none() && version == "0";
        if matches && self.continue_token.is_some() {
            causes.push(Cause::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        causes
    }

    /// ⚠ A watch with a version that is no number is a 500 in Go; no client depends on that, so it is a 400 as in lists.
    fn check_version(&self) -> Result<(), Status> {
        let Some(version) = &self.resource_version else {
            return Ok(());
        };
        if !version.bytes().all(|b| b.is_ascii_digit()) {
            let cause = Cause::invalid("resourceVersion", version, "must be a decimal integer");
            return Err(Status::bad_request(cause.to_string()));
        }
        // A watch passes it over.
        if !self.watch && self.continue_token.is_some() && version != "0" {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(())
    }
}

/// What to do about fields that the schema does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and say so in a Warning header.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

/// What create, update and patch have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Do all but write.
    pub dry_run: bool,
    /// Who owns the fields that are written. None: [`default_field_manager`].
    pub field_manager: Option<String>,
    /// What to do about unknown fields.
    pub field_validation: FieldValidation,
}

/// `metav1.CreateOptions`.
pub type CreateOptions = WriteOptions;
/// `metav1.UpdateOptions`.
pub type UpdateOptions = WriteOptions;

impl WriteOptions {
    /// Reads `metav1.CreateOptions`.
    ///
    /// # Errors
    /// 422 for values that are not allowed.
    pub fn create_from_query(query: &Query) -> Result<CreateOptions, Status> {
        let (options, causes) = Self::read(query);
        check("CreateOptions", causes)?;
        Ok(options)
    }

    /// Reads `metav1.UpdateOptions`.
    ///
    /// # Errors
    /// 422 for values that are not allowed.
    pub fn update_from_query(query: &Query) -> Result<UpdateOptions, Status> {
        let (options, causes) = Self::read(query);
        check("UpdateOptions", causes)?;
        Ok(options)
    }

    fn read(query: &Query) -> (Self, Vec<Cause>) {
        let mut causes = Vec::new();
        let field_manager = query.text("fieldManager");
        if let Some(manager) = &field_manager {
            check_field_manager(manager, &mut causes);
        }
        let dry_run = read_dry_run(query.all("dryRun"), &mut causes);
        let field_validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                causes.push(Cause::not_supported("fieldValidation", other, &supported));
                FieldValidation::Warn
            }
        };
        let options = Self {
            dry_run,
            field_manager,
            field_validation,
        };
        (options, causes)
    }
}

/// `metav1.PatchOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// As for other writes.
    pub write: WriteOptions,
    /// Apply only: take fields from other managers.
    pub force: bool,
}

impl PatchOptions {
    /// Reads them. `apply`: the patch is server-side apply.
    ///
    /// # Errors
    /// 422 for values that are not allowed, apply without a field manager, or `force` without apply.
    pub fn from_query(query: &Query, apply: bool) -> Result<Self, Status> {
        let (write, mut causes) = WriteOptions::read(query);
        let force = query.boolean("force");
        if apply && write.field_manager.is_none() {
            causes.insert(
                0,
                Cause::required("fieldManager", "is required for apply patch"),
            );
        } else if !apply && force.is_some() {
            causes.insert(
                0,
                Cause::forbidden("force", "may not be specified for non-apply patch"),
            );
        }
        check("PatchOptions", causes)?;
        Ok(Self {
            write,
            force: force.unwrap_or_default(),
        })
    }
}

/// What becomes of the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum PropagationPolicy {
    /// They stay, without their owner.
    Orphan,
    /// The garbage collector takes them afterwards.
    Background,
    /// They go first.
    Foreground,
}

/// What must hold of an object for it to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Preconditions {
    /// It has this uid.
    pub uid: Option<String>,
    /// It is at this version.
    pub resource_version: Option<String>,
}

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Do all but delete.
    pub dry_run: bool,
    /// None: the resource's default.
    pub propagation_policy: Option<PropagationPolicy>,
    /// All must hold.
    pub preconditions: Preconditions,
    /// Seconds until it goes; 0 at once. None: the resource's default.
    pub grace_period_seconds: Option<u64>,
}

/// As it comes in a body.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeleteOptionsBody {
    kind: Option<String>,
    dry_run: Vec<String>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Option<Preconditions>,
    grace_period_seconds: Option<i64>,
}

impl DeleteOptions {
    /// Reads them from the body, as JSON, or from the query when the body is empty: never from both.
    ///
    /// # Errors
    /// 400 for what cannot be read, 422 for values that are not allowed.
    pub fn read(query: &Query, body: &[u8]) -> Result<Self, Status> {
        let begins = body.trim_ascii_start().first();
        if begins.is_some_and(|byte| !matches!(*byte, b'{' | b'n')) {
            return Err(Status::bad_request(
                "the body is no meta/v1 DeleteOptions: it is no JSON object",
            ));
        }
        let body = if body.is_empty() {
            DeleteOptionsBody {
                kind: None,
                dry_run: query.all("dryRun").to_vec(),
                propagation_policy: query.text("propagationPolicy"),
                orphan_dependents: query.boolean("orphanDependents"),
                preconditions: None,
                grace_period_seconds: query.integer("gracePeriodSeconds")?,
            }
        } else {
            // null is none, and not that the query counts.
            let body: Option<DeleteOptionsBody> = serde_json::from_slice(body).map_err(|e| {
                Status::bad_request(format!("the body is no meta/v1 DeleteOptions: {e}"))
            })?;
            body.unwrap_or_default()
        };
        Self::validate(body)
    }

    fn validate(body: DeleteOptionsBody) -> Result<Self, Status> {
        if let Some(kind) = body.kind.filter(|kind| kind != "DeleteOptions") {
            return Err(Status::bad_request(format!(
                "the body of a delete must be DeleteOptions, not {kind:?}"
            )));
        }
        let mut causes = Vec::new();
        if body.orphan_dependents.is_some() && body.propagation_policy.is_some() {
            causes.push(Cause::invalid(
                "propagationPolicy",
                &body.propagation_policy,
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let mut propagation_policy = match body.propagation_policy.as_deref() {
            None | Some("") => None,
            Some("Orphan") => Some(PropagationPolicy::Orphan),
            Some("Background") => Some(PropagationPolicy::Background),
            Some("Foreground") => Some(PropagationPolicy::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(Cause::not_supported("propagationPolicy", other, &supported));
                None
            }
        };
        if let Some(orphan) = body.orphan_dependents {
            propagation_policy = propagation_policy.or(Some(if orphan {
                PropagationPolicy::Orphan
            } else {
                PropagationPolicy::Background
            }));
        }
        let dry_run = read_dry_run(&body.dry_run, &mut causes);
        check("DeleteOptions", causes)?;
        Ok(Self {
            dry_run,
            propagation_policy,
            preconditions: body.preconditions.unwrap_or_default(),
            // As kube-apiserver: a negative period means the smallest that is not immediate.
            grace_period_seconds: body
                .grace_period_seconds
                .map(|s| u64::try_from(s).unwrap_or(1)),
        })
    }
}

/// The field manager of a client that names none: its User-Agent up to the first `/`.
pub fn default_field_manager(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for c in name.chars().filter(|c| !c.is_control()) {
        if manager.len() + c.len_utf8() > MAX_FIELD_MANAGER {
            break;
        }
        manager.push(c);
    }
    manager
}

/// In bytes.
const MAX_FIELD_MANAGER: usize = 128;

fn check_field_manager(manager: &str, causes: &mut Vec<Cause>) {
    if manager.len() > MAX_FIELD_MANAGER {
        causes.push(Cause::too_long("fieldManager", MAX_FIELD_MANAGER));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| c.is_control()) {
        let detail = format!(
            "invalid character U+{:04X} (at position {at})",
            u32::from(c)
        );
        causes.push(Cause::invalid("fieldManager", manager, &detail));
    }
}

fn read_dry_run(values: &[String], causes: &mut Vec<Cause>) -> bool {
    if values.iter().any(|v| v != "All") {
        causes.push(Cause::not_supported("dryRun", values, &["All"]));
    }
    !values.is_empty()
}

fn check(kind: &str, causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(META_GROUP, kind, "", causes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(query: &str) -> Result<ListOptions, Status> {
        ListOptions::from_query(&Query::parse(query))
    }

    #[test]
    fn a_list_reads_all_its_options() {
        let options = list(
            "labelSelector=a%20in%20(x%2Cy)&fieldSelector=metadata.name%3Dn&resourceVersion=7\
             &resourceVersionMatch=Exact&limit=10&timeoutSeconds=30",
        )
        .unwrap();
        assert_eq!(options.label_selector.to_string(), "a in (x,y)");
        assert_eq!(options.field_selector, FieldSelector::name("n"));
        assert_eq!(options.resource_version.as_deref(), Some("7"));
        assert_eq!(options.limit, 10);
        assert_eq!(options.timeout_seconds, Some(30));
        assert!(options.is_exact());
        assert!(!options.watch);
    }

    #[test]
    fn booleans_are_true_unless_they_say_otherwise() {
        for (query, watch) in [
            ("watch=1", true),
            ("watch=true", true),
            ("watch", true),
            ("watch=", true),
            ("watch=False", false),
            ("watch=0", false),
            ("", false),
        ] {
            assert_eq!(list(query).unwrap().watch, watch, "{query}");
        }
    }

    #[test]
    fn empty_parameters_are_as_if_they_were_not_there() {
        assert_eq!(
            list(
                "limit=&continue=&resourceVersion=&labelSelector=&fieldSelector=&resourceVersionMatch="
            ),
            Ok(ListOptions::default())
        );
    }

    #[test]
    fn a_list_at_any_version_has_no_pages() {
        assert_eq!(list("resourceVersion=0&limit=2").unwrap().limit, 0);
        assert_eq!(list("resourceVersion=1&limit=2").unwrap().limit, 2);
        assert_eq!(list("limit=2").unwrap().limit, 2);
    }

    #[test]
    fn a_version_with_a_limit_means_exactly_that_version() {
        assert!(list("resourceVersion=5&limit=2").unwrap().is_exact());
        assert!(!list("resourceVersion=5").unwrap().is_exact());
        assert!(!list("resourceVersion=0&limit=2").unwrap().is_exact());
        let explicit = list("resourceVersion=5&limit=2&resourceVersionMatch=NotOlderThan").unwrap();
        assert!(!explicit.is_exact());
    }

    #[test]
    fn contradictions_are_invalid_list_options() {
        for (query, message) in [
            (
                "resourceVersionMatch=Exact",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
                "resourceVersionMatch is forbidden when continue is provided",
            ),
            (
                "resourceVersionMatch=Older&resourceVersion=1",
                "Unsupported value: \"Older\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
            (
                "sendInitialEvents=true",
                "sendInitialEvents is forbidden for list",
            ),
            (
                "watch=1&sendInitialEvents=true",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (
                "watch=1&continue=abc",
                "resourceVersionMatch is forbidden when continue is provided",
            ),
            (
                "watch=1&resourceVersionMatch=NotOlderThan",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
        ] {
            let status = list(query).unwrap_err();
            assert_eq!(status.code, 422, "{query}");
            assert!(
                status
                    .message
                    .starts_with("ListOptions.meta.k8s.io \"\" is invalid: ")
            );
            assert!(status.message.contains(message), "{query}: {status}");
        }
        assert!(list("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").is_ok());
    }

    #[test]
    fn what_cannot_be_read_is_a_bad_request() {
        for query in [
            "labelSelector=a%20b",
            "fieldSelector=a",
            "limit=x",
            "timeoutSeconds=x",
            "resourceVersion=abc",
            "resourceVersion=-1",
            "watch=1&resourceVersion=abc",
            "continue=x&resourceVersion=5",
        ] {
            assert_eq!(list(query).unwrap_err().code, 400, "{query}");
        }
        assert!(list("continue=x&resourceVersion=0").is_ok());
        assert!(list("watch=1&continue=x&resourceVersion=5").is_ok());
    }

    #[test]
    fn writes_read_dry_run_manager_and_validation() {
        let query = Query::parse("dryRun=All&fieldManager=me&fieldValidation=Strict");
        let options = WriteOptions::create_from_query(&query).unwrap();
        assert!(options.dry_run);
        assert_eq!(options.field_manager.as_deref(), Some("me"));
        assert_eq!(options.field_validation, FieldValidation::Strict);
        let bad = Query::parse("dryRun=foo&fieldValidation=Maybe");
        let status = WriteOptions::update_from_query(&bad).unwrap_err();
        assert_eq!(status.code, 422);
        assert_eq!(
            status.message,
            "UpdateOptions.meta.k8s.io \"\" is invalid: [dryRun: Unsupported value: [\"foo\"]: supported values: \
             \"All\", fieldValidation: Unsupported value: \"Maybe\": supported values: \"\", \"Ignore\", \
             \"Strict\", \"Warn\"]"
        );
    }

    #[test]
    fn apply_needs_a_manager_and_only_apply_may_force() {
        let read = |query: &str, apply| PatchOptions::from_query(&Query::parse(query), apply);
        assert!(
            read("", true)
                .unwrap_err()
                .message
                .contains("fieldManager: Required value")
        );
        assert!(read("fieldManager=me&force=true", true).unwrap().force);
        assert_eq!(read("force=true", false).unwrap_err().code, 422);
        assert!(read(&format!("fieldManager={}", "x".repeat(129)), false).is_err());
        assert!(read("fieldManager=a%0Ab", false).is_err());
    }

    #[test]
    fn delete_options_in_the_body_beat_the_query() {
        let query = Query::parse("dryRun=All&propagationPolicy=Foreground&gracePeriodSeconds=5");
        let from_query = DeleteOptions::read(&query, b"").unwrap();
        assert!(from_query.dry_run);
        assert_eq!(
            from_query.propagation_policy,
            Some(PropagationPolicy::Foreground)
        );
        assert_eq!(from_query.grace_period_seconds, Some(5));
        let body = br#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u","resourceVersion":"3"}}"#;
        let from_body = DeleteOptions::read(&query, body).unwrap();
        assert!(!from_body.dry_run);
        assert_eq!(from_body.propagation_policy, None);
        assert_eq!(from_body.preconditions.uid.as_deref(), Some("u"));
        assert_eq!(
            from_body.preconditions.resource_version.as_deref(),
            Some("3")
        );
    }

    #[test]
    fn bad_delete_options_say_what_is_wrong() {
        let read =
            |body: &str| DeleteOptions::read(&Query::default(), body.as_bytes()).unwrap_err();
        assert_eq!(read("{").code, 400);
        assert_eq!(read(r#"{"kind":"Task"}"#).code, 400);
        assert_eq!(read(r#"{"propagationPolicy":"Later"}"#).code, 422);
        assert_eq!(read(r#"{"dryRun":["Some"]}"#).code, 422);
        assert_eq!(
            read(r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#).code,
            422
        );
    }

    #[test]
    fn the_default_field_manager_is_the_clients_name() {
        assert_eq!(default_field_manager("kubectl/v1.36 (linux)"), "kubectl");
        assert_eq!(default_field_manager(""), "");
        assert_eq!(default_field_manager(&"ä".repeat(100)).len(), 128);
    }
}
