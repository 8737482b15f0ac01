//! What is checked in both environments or in one, one topic a file.

pub(crate) mod discovery;
pub(crate) mod following;
pub(crate) mod freshness;
pub(crate) mod input;
pub(crate) mod isolation;
pub(crate) mod kubectl;
pub(crate) mod plugins;
pub(crate) mod reading;
pub(crate) mod reload;
pub(crate) mod representations;
pub(crate) mod stored;
pub(crate) mod up;
pub(crate) mod upstream;
pub(crate) mod watching;
pub(crate) mod writing;

pub(crate) use crate::transcripts;

/// Checks as tests: the environment they run in, then their names.
macro_rules! checks {
    ($environment:path; $($module:ident::$check:ident),* $(,)?) => {
        $(#[test] fn $check() { $crate::checks::$module::$check($environment()) })*
    };
}

/// What holds in both environments, as tests of one.
macro_rules! checks_of_both {
    ($environment:path) => {
        checks! {
            $environment;
            reading::the_samples_are_listed_with_their_events_counted,
            reading::one_by_name_is_one_object_with_its_events_inside,
            reading::explain_knows_the_fields_of_the_status,
            reading::kubectl_finds_all_three_resources_without_a_complaint,
            watching::a_changed_task_and_a_new_event_alone_each_print_a_line,
            watching::an_event_that_comes_and_goes_is_two_modifications,
            watching::initial_events_end_with_an_annotated_bookmark,
            freshness::a_task_just_applied_is_never_not_found,
            isolation::an_event_forged_in_another_namespace_stays_out,
            stored::a_custom_task_is_created_read_listed_watched_and_deleted,
            stored::a_cluster_task_is_created_read_listed_and_deleted,
            reload::replacing_a_plugin_under_load_fails_no_request,
            reload::a_broken_plugin_leaves_the_one_before_it_serving,
            input::bad_reads_of_a_view_are_answered_as_kube_apiserver_answers,
            input::bad_requests_for_a_stored_resource_are_answered_as_kube_apiserver_answers,
            input::an_unknown_resource_is_not_found_with_a_status,
            discovery::each_verb_works_as_discovery_says,
            kubectl::health_version_and_metrics_are_there,
            kubectl::who_may_is_told_by_auth_can_i,
            kubectl::the_events_of_a_task_are_listed_by_kubectl,
            kubectl::bad_input_is_one_clear_line,
            representations::nothing_is_an_empty_list_in_every_form,
            representations::who_prefers_protobuf_gets_json_and_who_wants_nothing_else_a_406,
            representations::tables_have_the_same_columns_in_a_get_a_list_and_a_watch,
            following::a_watch_from_a_lists_version_tells_what_came_after_it_once,
            following::a_list_as_a_watch_ends_with_one_marked_bookmark,
            following::an_idle_watch_is_answered_at_once,
            following::selectors_of_every_form_select_in_lists_and_watches,
            writing::a_dry_run_of_any_write_leaves_no_trace,
            writing::of_racing_increments_none_is_lost,
            transcripts::kubectl_prints_for_custom_tasks_what_it_prints_for_custom_resources,
            transcripts::kubectl_prints_for_cluster_tasks_what_it_prints_for_custom_resources,
            transcripts::kubectl_reads_combined_tasks_and_is_clearly_refused_writes,
            reload::a_broken_plugin_beside_good_ones_disturbs_nothing,
            plugins::a_plugin_in_a_config_map_lives_and_goes_with_it,
            plugins::a_plugin_with_stored_objects_is_not_taken_away,
            plugins::a_view_says_which_source_it_waits_for,
            plugins::swaps_under_load_are_whole_and_end_no_watch,
            plugins::the_swap_of_a_mounted_config_map_is_live,
            plugins::notes_of_a_service_are_a_resource_as_any_other,
            up::up_runs_a_command_and_leaves_nothing_behind,
        }
    };
}

pub(crate) use {checks, checks_of_both};
