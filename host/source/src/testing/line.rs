//! What is particular to one connection: what was asked on it, and its faults.

use std::collections::HashMap;
use std::time::Duration;

use joinery_object::GroupVersionResource;
use parking_lot::Mutex;

use crate::upstream::{Query, UpstreamError};

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// One object. The name stands in the query's field selector.
    Get,
    /// A page.
    List,
    /// A stream.
    Watch,
}

/// A request that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its kind.
    pub verb: Verb,
    /// What it was for.
    pub gvr: GroupVersionResource,
    /// What was asked.
    pub query: Query,
}

#[derive(Default)]
pub(super) struct Line(Mutex<State>);

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    /// Up to which position streams are told, where they are held.
    limits: HashMap<GroupVersionResource, u64>,
    failures: HashMap<GroupVersionResource, UpstreamError>,
    breaks: u64,
    silence: Duration,
    frozen: bool,
}

impl Line {
    pub(super) fn record(&self, verb: Verb, gvr: &GroupVersionResource, query: &Query) {
        self.0.lock().requests.push(Request {
            verb,
            gvr: gvr.clone(),
            query: query.clone(),
        });
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.0.lock().requests.clone()
    }

    pub(super) fn forget_requests(&self) {
        self.0.lock().requests.clear();
    }

    pub(super) fn hold(&self, gvr: &GroupVersionResource, limit: u64) {
        self.0.lock().limits.insert(gvr.clone(), limit);
    }

    pub(super) fn limit(&self, gvr: &GroupVersionResource) -> Option<u64> {
        self.0.lock().limits.get(gvr).copied()
    }

    pub(super) fn release(&self, gvr: &GroupVersionResource) {
        self.0.lock().limits.remove(gvr);
    }

    pub(super) fn fail(&self, gvr: &GroupVersionResource, error: Option<UpstreamError>) {
        let failures = &mut self.0.lock().failures;
        match error {
            Some(error) => failures.insert(gvr.clone(), error),
            None => failures.remove(gvr),
        };
    }

    pub(super) fn failure(&self, gvr: &GroupVersionResource) -> Option<UpstreamError> {
        self.0.lock().failures.get(gvr).cloned()
    }

    pub(super) fn break_streams(&self) {
        self.0.lock().breaks += 1;
    }

    pub(super) fn breaks(&self) -> u64 {
        self.0.lock().breaks
    }

    pub(super) fn slow_down(&self, silence: Duration) {
        self.0.lock().silence = silence;
    }

    pub(super) fn silence(&self) -> Duration {
        self.0.lock().silence
    }

    pub(super) fn freeze(&self, frozen: bool) {
        self.0.lock().frozen = frozen;
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.0.lock().frozen
    }
}
