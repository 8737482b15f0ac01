use super::*;
use serde_json::{Value, json};

const NOW: &str = "2026-05-01T12:00:00Z";
const AHEAD: &str = "2026-05-01T12:10:00Z";
const PAST: &str = "2026-05-01T11:59:59Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn task(generation: i64, spec: Value, status: Value) -> Task {
    serde_json::from_value(json!({
        "metadata": {"name": "t", "namespace": "n", "uid": "u", "generation": generation, "finalizers": [FINALIZER]},
        "spec": spec,
        "status": status,
    }))
    .unwrap()
}

fn pending(generation: i64, deadline: &str) -> Task {
    task(
        generation,
        json!({"priority": 1, "deadline": deadline, "taskState": "Pending"}),
        Value::Null,
    )
}

/// The Events that are due at `now`, and the Task as it stands once they are written.
fn step(task: &Task, now: &str) -> (Vec<(&'static str, i64)>, Task) {
    let now = at(now);
    let Plan::Observe { events, .. } = decide(task, now) else {
        panic!("not observed: {:?}", decide(task, now))
    };
    let mut status = task.status.clone();
    for event in &events {
        status.record(crate::EmittedEvent {
            reason: event.reason.as_str().into(),
            generation: event.generation,
            time: whole_seconds(now),
        });
    }
    let mut after = task.clone();
    after.status = observed(task, status, now);
    (
        events
            .iter()
            .map(|event| (event.reason.as_str(), event.generation))
            .collect(),
        after,
    )
}

fn edit(task: &Task, spec: Value) -> Task {
    let mut edited = task.clone();
    edited.metadata.generation = Some(task.metadata.generation.unwrap() + 1);
    edited.spec = serde_json::from_value(spec).unwrap();
    edited
}

fn condition(task: &Task, type_: &str) -> (String, String, Option<i64>) {
    let condition = task
        .status
        .conditions
        .iter()
        .find(|one| one.type_ == type_)
        .unwrap();
    (
        condition.status.clone(),
        condition.reason.clone(),
        condition.observed_generation,
    )
}

#[test]
fn a_task_without_the_finalizer_is_adopted_before_anything_is_told() {
    let mut task = pending(1, PAST);
    task.metadata.finalizers = None;
    assert_eq!(decide(&task, at(NOW)), Plan::Adopt);
    task.metadata.finalizers = Some(vec!["somebody.else/finalizer".into()]);
    assert_eq!(decide(&task, at(NOW)), Plan::Adopt);
}

#[test]
fn a_new_task_is_created_once() {
    let (events, after) = step(&pending(1, AHEAD), NOW);
    assert_eq!(events, [("TaskCreated", 1)]);
    assert_eq!(after.status.observed_generation, Some(1));
    let (events, again) = step(&after, "2026-05-01T12:05:00Z");
    assert_eq!(events, []);
    assert_eq!(
        again.status, after.status,
        "nothing to write when nothing happened"
    );
}

#[test]
fn a_task_edited_before_it_was_first_seen_is_created_and_updated() {
    let (events, after) = step(&pending(3, AHEAD), NOW);
    assert_eq!(events, [("TaskCreated", 3), ("TaskUpdated", 3)]);
    assert_eq!(step(&after, NOW).0, []);
}

#[test]
fn each_new_generation_is_updated_once() {
    let (_, seen) = step(&pending(1, AHEAD), NOW);
    let (events, seen) = step(
        &edit(&seen, json!({"deadline": AHEAD, "details": "a"})),
        NOW,
    );
    assert_eq!(events, [("TaskUpdated", 2)]);
    assert_eq!(step(&seen, NOW).0, []);
    let (events, _) = step(
        &edit(&seen, json!({"deadline": AHEAD, "details": "b"})),
        NOW,
    );
    assert_eq!(events, [("TaskUpdated", 3)]);
}

#[test]
fn a_change_of_metadata_alone_is_no_update() {
    let (_, mut seen) = step(&pending(1, AHEAD), NOW);
    seen.metadata.labels = Some([("team".into(), "a".into())].into());
    seen.metadata.resource_version = Some("77".into());
    assert_eq!(step(&seen, NOW).0, []);
}

#[test]
fn a_task_is_finished_when_it_becomes_so_and_not_by_later_edits() {
    let (_, seen) = step(&pending(1, AHEAD), NOW);
    let (events, seen) = step(
        &edit(&seen, json!({"deadline": AHEAD, "taskState": "Finished"})),
        NOW,
    );
    assert_eq!(events, [("TaskUpdated", 2), ("TaskFinished", 2)]);
    assert_eq!(
        condition(&seen, "Finished"),
        ("True".into(), "TaskFinished".into(), Some(2))
    );

    let edited = edit(
        &seen,
        json!({"deadline": AHEAD, "taskState": "Finished", "details": "more"}),
    );
    let (events, seen) = step(&edited, NOW);
    assert_eq!(events, [("TaskUpdated", 3)]);

    let (events, seen) = step(
        &edit(&seen, json!({"deadline": AHEAD, "taskState": "Pending"})),
        NOW,
    );
    assert_eq!(events, [("TaskUpdated", 4)]);
    assert_eq!(condition(&seen, "Finished").0, "False");

    let (events, _) = step(
        &edit(&seen, json!({"deadline": AHEAD, "taskState": "Finished"})),
        NOW,
    );
    assert_eq!(events, [("TaskUpdated", 5), ("TaskFinished", 5)]);
}

#[test]
fn a_task_created_finished_is_created_and_finished_and_never_overdue() {
    let (events, after) = step(
        &task(
            1,
            json!({"deadline": PAST, "taskState": "Finished"}),
            Value::Null,
        ),
        NOW,
    );
    assert_eq!(events, [("TaskCreated", 1), ("TaskFinished", 1)]);
    assert_eq!(
        condition(&after, "Overdue"),
        ("False".into(), "TaskFinished".into(), Some(1))
    );
}

#[test]
fn a_task_is_overdue_from_its_deadline_on_once() {
    let (_, seen) = step(&pending(1, AHEAD), NOW);
    assert_eq!(step(&seen, "2026-05-01T12:09:59.999999999Z").0, []);
    let (events, seen) = step(&seen, AHEAD);
    assert_eq!(events, [("TaskOverdue", 1)]);
    assert_eq!(
        condition(&seen, "Overdue"),
        ("True".into(), "DeadlinePassed".into(), Some(1))
    );
    assert_eq!(step(&seen, "2027-01-01T00:00:00Z").0, []);
}

#[test]
fn an_overdue_task_is_overdue_anew_only_after_its_deadline_was_moved_ahead() {
    let (events, seen) = step(&pending(1, PAST), NOW);
    assert_eq!(events, [("TaskCreated", 1), ("TaskOverdue", 1)]);
    let (events, seen) = step(
        &edit(&seen, json!({"deadline": PAST, "details": "still late"})),
        NOW,
    );
    assert_eq!(events, [("TaskUpdated", 2)]);
    let (events, seen) = step(&edit(&seen, json!({"deadline": AHEAD})), NOW);
    assert_eq!(events, [("TaskUpdated", 3)]);
    assert_eq!(
        condition(&seen, "Overdue"),
        ("False".into(), "DeadlineAhead".into(), Some(3))
    );
    let (events, _) = step(&seen, AHEAD);
    assert_eq!(events, [("TaskOverdue", 3)]);
}

#[test]
fn a_clock_set_back_does_not_make_a_task_overdue_twice_in_one_generation() {
    let (_, seen) = step(&pending(1, PAST), NOW);
    let (events, seen) = step(&seen, "2026-05-01T11:00:00Z");
    assert_eq!(events, []);
    assert_eq!(condition(&seen, "Overdue").0, "False");
    assert_eq!(step(&seen, NOW).0, []);
}

#[test]
fn deadlines_with_an_offset_are_the_instants_they_name() {
    let ahead_by_offset = "2026-05-01T11:30:00-02:00";
    let (events, _) = step(&pending(1, ahead_by_offset), NOW);
    assert_eq!(events, [("TaskCreated", 1)]);
    let past_by_offset = "2026-05-01T13:30:00+02:00";
    let (events, _) = step(&pending(1, past_by_offset), NOW);
    assert_eq!(events, [("TaskCreated", 1), ("TaskOverdue", 1)]);
}

#[test]
fn the_last_second_of_the_year_9999_is_a_deadline_that_lies_ahead() {
    for deadline in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999-12:00"] {
        let (_, after) = step(&pending(1, deadline), NOW);
        assert_eq!(
            condition(&after, "Overdue").1,
            "DeadlineAhead",
            "{deadline}"
        );
    }
}

#[test]
fn a_missing_or_malformed_deadline_is_never_overdue_and_said_so() {
    let (events, after) = step(&task(1, json!({}), Value::Null), NOW);
    assert_eq!(events, [("TaskCreated", 1)]);
    assert_eq!(
        condition(&after, "Overdue"),
        ("False".into(), "NoDeadline".into(), Some(1))
    );

    let (events, after) = step(&pending(1, "tomorrow"), NOW);
    assert_eq!(events, [("TaskCreated", 1)]);
    assert_eq!(
        condition(&after, "Overdue"),
        ("Unknown".into(), "DeadlineMalformed".into(), Some(1))
    );
}

#[test]
fn a_pending_task_is_looked_at_again_just_after_its_deadline_or_within_the_hour() {
    let recheck = |task: &Task, now| match decide(task, at(now)) {
        Plan::Observe { recheck, .. } => recheck,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        recheck(&pending(1, AHEAD), NOW),
        Some(Duration::from_millis(600_001))
    );
    assert_eq!(
        recheck(&pending(1, "9999-12-30T00:00:00Z"), NOW),
        Some(LONGEST_WAIT)
    );
    assert_eq!(recheck(&pending(1, PAST), NOW), None);
    assert_eq!(recheck(&pending(1, NOW), NOW), None);
    assert_eq!(
        recheck(
            &task(
                1,
                json!({"deadline": AHEAD, "taskState": "Finished"}),
                Value::Null
            ),
            NOW
        ),
        None
    );
}

#[test]
fn a_task_that_is_going_is_released_with_one_event_and_no_update() {
    let (_, mut seen) = step(&pending(1, AHEAD), NOW);
    // Marking for deletion raises the generation.
    seen.metadata.generation = Some(2);
    seen.metadata.deletion_timestamp = Some(whole_seconds(at(NOW)));
    let Plan::Release { event: Some(event) } = decide(&seen, at(NOW)) else {
        panic!()
    };
    assert_eq!((event.reason, event.generation), (Reason::TaskDeleted, 2));

    seen.status.record(crate::EmittedEvent {
        reason: "TaskDeleted".into(),
        generation: 2,
        time: whole_seconds(at(NOW)),
    });
    // Also when it is edited after that, while somebody else's finalizer keeps it.
    seen.metadata.generation = Some(3);
    assert_eq!(decide(&seen, at(NOW)), Plan::Release { event: None });

    seen.metadata.finalizers = Some(vec!["somebody.else/finalizer".into()]);
    assert_eq!(decide(&seen, at(NOW)), Plan::Ignore);
}

#[test]
fn a_task_that_was_going_before_it_was_ever_seen_is_left_alone() {
    let mut task = pending(1, AHEAD);
    task.metadata.finalizers = None;
    task.metadata.deletion_timestamp = Some(whole_seconds(at(NOW)));
    assert_eq!(decide(&task, at(NOW)), Plan::Ignore);
}

#[test]
fn conditions_of_others_stay_and_own_ones_keep_their_transition_time() {
    let foreign = json!({
        "type": "Approved", "status": "True", "reason": "Signed", "message": "", "lastTransitionTime": PAST,
    });
    let start = task(
        1,
        json!({"deadline": AHEAD}),
        json!({"conditions": [foreign]}),
    );
    let (_, first) = step(&start, NOW);
    let (_, second) = step(
        &edit(&first, json!({"deadline": AHEAD, "details": "x"})),
        "2026-05-01T12:01:00Z",
    );
    assert_eq!(
        condition(&second, "Approved"),
        ("True".into(), "Signed".into(), None)
    );
    let ready = second
        .status
        .conditions
        .iter()
        .find(|one| one.type_ == "Ready")
        .unwrap();
    assert_eq!(ready.observed_generation, Some(2));
    assert_eq!(ready.last_transition_time, whole_seconds(at(NOW)));
}

#[test]
fn the_status_stays_small_over_a_long_life() {
    let (_, mut seen) = step(&pending(1, PAST), NOW);
    for round in 0..500 {
        let state = if round % 2 == 0 {
            "Finished"
        } else {
            "Pending"
        };
        (_, seen) = step(
            &edit(&seen, json!({"deadline": PAST, "taskState": state})),
            NOW,
        );
    }
    assert_eq!(seen.status.emitted_events.len(), 4);
    assert_eq!(seen.status.conditions.len(), 3);
    assert!(serde_json::to_vec(&seen.status).unwrap().len() < 2048);
}

#[test]
fn the_status_reads_back_as_it_was_written() {
    let (_, seen) = step(&pending(1, PAST), "2026-05-01T12:00:00.987654321Z");
    let text = serde_json::to_string(&seen.status).unwrap();
    assert_eq!(
        serde_json::from_str::<TaskStatus>(&text).unwrap(),
        seen.status
    );
}
