//! What is to be done about a Task: a pure function of the Task and the time.
//!
//! The Task's status is the memory. TaskCreated and TaskDeleted are written once
//! in a Task's life, TaskUpdated once for each generation seen, TaskFinished and
//! TaskOverdue each time the Task *becomes* so: an edit of a Task that is
//! already finished is an update and does not finish it again.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::event::Reason;
use crate::task::{FINALIZER, Task, TaskStatus};

/// The controller has handled the observed generation.
const READY: &str = "Ready";
/// `spec.taskState` is Finished.
const FINISHED: &str = "Finished";
/// The deadline passed while the Task was Pending.
const OVERDUE: &str = "Overdue";

/// The longest wait for a deadline before looking at the clock again: timers
/// stand still while a machine sleeps and know nothing of a clock that is set.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// What is to be done about a Task.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Nothing, ever: the Task is going, and the finalizer is not (or no longer) on it.
    Ignore,
    /// Put the finalizer on, then decide again. Nothing is told about a Task
    /// before the finalizer makes sure that its end will be told too.
    Adopt,
    /// The Task lives: write the Events in this order, then the status.
    Observe {
        /// The Events that are due.
        events: Vec<Occurrence>,
        /// When to look again though nothing changed: the deadline, or an hour
        /// if that is sooner.
        recheck: Option<Duration>,
    },
    /// The Task is going: write the Event if it is still due, take the finalizer off.
    Release {
        /// TaskDeleted, unless the record has it.
        event: Option<Occurrence>,
    },
}

/// An Event that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// Why it is written.
    pub reason: Reason,
    /// The Task's generation that it is about.
    pub generation: i64,
    /// The text for people.
    pub message: String,
}

/// Says what is to be done about `task` at `now`.
pub fn decide(task: &Task, now: Timestamp) -> Plan {
    let held = task
        .metadata
        .finalizers
        .as_ref()
        .is_some_and(|all| all.iter().any(|one| one == FINALIZER));
    match (task.metadata.deletion_timestamp.is_some(), held) {
        (true, false) => Plan::Ignore,
        (true, true) => Plan::Release {
            event: farewell(task),
        },
        (false, false) => Plan::Adopt,
        (false, true) => Plan::Observe {
            events: due(task, now),
            recheck: deadline(task).recheck(task.spec.is_finished(), now),
        },
    }
}

/// The status after the Events of [`Plan::Observe`] were written and recorded in `recorded`.
pub(crate) fn observed(task: &Task, mut recorded: TaskStatus, now: Timestamp) -> TaskStatus {
    let generation = generation(task);
    let finished = task.spec.is_finished();
    let deadline = deadline(task);
    let mut set = |type_: &str, status: &str, reason: &str, message: String| {
        recorded.set_condition(Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message,
            observed_generation: Some(generation),
            last_transition_time: whole_seconds(now),
        });
    };

    set(
        READY,
        "True",
        "Observed",
        format!("The controller has handled generation {generation}."),
    );
    if finished {
        set(
            FINISHED,
            "True",
            "TaskFinished",
            "spec.taskState is Finished.".into(),
        );
        set(
            OVERDUE,
            "False",
            "TaskFinished",
            "A finished Task is not overdue.".into(),
        );
    } else {
        set(
            FINISHED,
            "False",
            "TaskPending",
            "spec.taskState is Pending.".into(),
        );
        match deadline {
            Deadline::At(at) if at <= now => {
                set(
                    OVERDUE,
                    "True",
                    "DeadlinePassed",
                    format!("The deadline {at} has passed."),
                );
            }
            Deadline::At(at) => set(
                OVERDUE,
                "False",
                "DeadlineAhead",
                format!("The deadline is {at}."),
            ),
            Deadline::Missing => set(
                OVERDUE,
                "False",
                "NoDeadline",
                "The Task has no deadline.".into(),
            ),
            Deadline::Malformed => {
                set(
                    OVERDUE,
                    "Unknown",
                    "DeadlineMalformed",
                    "spec.deadline is no RFC 3339 timestamp.".into(),
                );
            }
        }
    }
    recorded.observed_generation = Some(generation);
    recorded
}

/// Times in a status carry whole seconds, as metav1.Time does; the value that
/// comes back from the server is then the value that was sent.
pub(crate) fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn due(task: &Task, now: Timestamp) -> Vec<Occurrence> {
    let generation = generation(task);
    let status = &task.status;
    let mut due = Vec::new();
    let mut tell = |reason: Reason, message: String| {
        due.push(Occurrence {
            reason,
            generation,
            message,
        })
    };

    // A Task that was changed before the controller first saw it was created and
    // updated; generations count from 1.
    let handled = status.observed_generation.unwrap_or(1);
    if status.emitted(Reason::TaskCreated.as_str()).is_none() {
        tell(
            Reason::TaskCreated,
            format!("Task {} was created", name(task)),
        );
    }
    if generation > handled {
        tell(
            Reason::TaskUpdated,
            format!("Task {} was updated to generation {generation}", name(task)),
        );
    }

    let becomes = |reason: Reason, condition: &str| match status.emitted(reason.as_str()) {
        None => true,
        Some(last) => last.generation < generation && !status.is_true(condition),
    };
    if task.spec.is_finished() {
        if becomes(Reason::TaskFinished, FINISHED) {
            tell(
                Reason::TaskFinished,
                format!("Task {} is finished", name(task)),
            );
        }
    } else if let Deadline::At(at) = deadline(task)
        && at <= now
        && becomes(Reason::TaskOverdue, OVERDUE)
    {
        tell(
            Reason::TaskOverdue,
            format!(
                "Task {} is overdue: its deadline {at} has passed",
                name(task)
            ),
        );
    }
    due
}

fn farewell(task: &Task) -> Option<Occurrence> {
    task.status
        .emitted(Reason::TaskDeleted.as_str())
        .is_none()
        .then(|| Occurrence {
            reason: Reason::TaskDeleted,
            generation: generation(task),
            message: format!("Task {} is being deleted", name(task)),
        })
}

fn name(task: &Task) -> &str {
    task.metadata.name.as_deref().unwrap_or_default()
}

fn generation(task: &Task) -> i64 {
    task.metadata.generation.unwrap_or(1)
}

#[derive(Clone, Copy)]
enum Deadline {
    At(Timestamp),
    Missing,
    Malformed,
}

fn deadline(task: &Task) -> Deadline {
    match task.spec.deadline.as_deref() {
        None => Deadline::Missing,
        Some(text) => match text.parse() {
            Ok(at) => Deadline::At(at),
            Err(_) if is_end_of_time(text) => Deadline::At(Timestamp::MAX),
            Err(_) => Deadline::Malformed,
        },
    }
}

/// People write 9999-12-31T23:59:59Z for "never", which is a day later than a
/// [`Timestamp`] can be.
fn is_end_of_time(text: &str) -> bool {
    Pieces::parse(text).is_ok_and(|pieces| {
        pieces.date().year() == 9999
            && pieces.time().is_some()
            && pieces.to_numeric_offset().is_some()
    })
}

impl Deadline {
    fn recheck(self, finished: bool, now: Timestamp) -> Option<Duration> {
        match self {
            Deadline::At(at) if !finished && at > now => {
                // Rounded up: a look a moment too early would only find the deadline still ahead.
                let wait = at.duration_since(now).unsigned_abs() + Duration::from_millis(1);
                Some(wait.min(LONGEST_WAIT))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
