//! The controller of the Task CRD (`tasks.example.com/v1`).
//!
//! What happens to a Task is told in core/v1 Events that carry the Task's uid as
//! a label, so that a view can find all Events of a Task with one selector. kube's
//! own recorder cannot label, hence [`EventWriter`].
//!
//! One reconciliation goes one way: [`decide`] looks at a Task and the time and
//! says what is to be done ([`Plan`]), without touching the network;
//! [`TaskReconciler`] does it; [`run`] feeds it from a watch. A [`LeaseLock`]
//! lets only one of several processes do so.

mod api_error;
mod controller;
mod event;
mod lease;
mod plan;
mod reconcile;
mod task;

pub use controller::run;
pub use event::{EventError, EventWriter, Reason, Written};
pub use lease::{LeaseError, LeaseLock, LeaseTiming};
pub use plan::{Occurrence, Plan, decide};
pub use reconcile::{ReconcileError, TaskReconciler};
pub use task::{
    EmittedEvent, FINALIZER, GROUP, TASK_UID_LABEL, Task, TaskSpec, TaskStatus, VERSION,
};
