//! What `/metrics` says of plugins, views and sources. Read at each scrape, kept nowhere.

use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::manager::Manager;
use crate::service::ResourceReport;

/// Reads a manager.
pub(crate) struct PluginMetrics(pub(crate) Arc<Manager>);

impl std::fmt::Debug for PluginMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PluginMetrics")
    }
}

/// Values of one metric, by their labels.
type Values<'a> = Vec<(Vec<(&'static str, String)>, u64)>;

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: Values<'_>,
) -> Result<(), Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: Values<'_>,
) -> Result<(), Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in values {
        ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

impl Collector for PluginMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let plugins = self.0.report();
        let plugin = |name: &str| ("plugin", name.to_owned());
        gauge(
            &mut encoder,
            "joinery_plugin_serving",
            "Whether a generation of the plugin serves",
            plugins
                .iter()
                .map(|p| (vec![plugin(&p.name)], p.serving.is_some().into()))
                .collect(),
        )?;
        gauge(
            &mut encoder,
            "joinery_plugin_refused",
            "Whether the plugin's newest version was refused, while an older generation may serve",
            plugins
                .iter()
                .map(|p| (vec![plugin(&p.name)], p.refused().into()))
                .collect(),
        )?;
        counter(
            &mut encoder,
            "joinery_plugin_generations",
            "Generations of the plugin that have taken their place",
            plugins
                .iter()
                .map(|p| (vec![plugin(&p.name)], p.generation))
                .collect(),
        )?;
        counter(
            &mut encoder,
            "joinery_plugin_refusals",
            "Versions of the plugin that were refused",
            plugins
                .iter()
                .map(|p| (vec![plugin(&p.name)], p.refusals))
                .collect(),
        )?;
        let mut calls = Vec::new();
        let stats = || {
            plugins
                .iter()
                .filter_map(|p| Some((&p.name, p.serving.as_ref()?.stats)))
        };
        for (name, stats) in stats() {
            let failed = stats.trapped + stats.timed_out;
            for (outcome, count) in [
                ("answered", stats.calls.saturating_sub(failed)),
                ("trapped", stats.trapped),
                ("timed_out", stats.timed_out),
                ("busy", stats.busy),
            ] {
                calls.push((vec![plugin(name), ("outcome", outcome.to_owned())], count));
            }
        }
        counter(
            &mut encoder,
            "joinery_plugin_calls",
            "Calls of the serving generation, by outcome; busy ones were turned away",
            calls,
        )?;
        counter(
            &mut encoder,
            "joinery_plugin_call_microseconds",
            "Time that calls of the serving generation took, together",
            stats()
                .map(|(name, stats)| {
                    let time = u64::try_from(stats.time.as_micros()).unwrap_or(u64::MAX);
                    (vec![plugin(name)], time)
                })
                .collect(),
        )?;
        gauge(
            &mut encoder,
            "joinery_plugin_memory_bytes",
            "The most memory that an instance of the serving generation had after a call",
            stats()
                .map(|(name, stats)| (vec![plugin(name)], stats.memory))
                .collect(),
        )?;
        gauge(
            &mut encoder,
            "joinery_plugin_warm_instances",
            "Instances of the serving generation that wait for their next call",
            stats()
                .map(|(name, stats)| (vec![plugin(name)], stats.warm))
                .collect(),
        )?;
        let views = || {
            let serving = plugins.iter().filter_map(|plugin| plugin.serving.as_ref());
            let resources = serving.flat_map(|serving| &serving.resources);
            resources.filter_map(|resource| Some((resource, resource.lag?)))
        };
        let resource =
            |resource: &ResourceReport| vec![("resource", resource.gvr.group_resource())];
        gauge(
            &mut encoder,
            "joinery_view_failures",
            "Primaries that a view leaves out because the plugin fails on them",
            views()
                .map(|(view, _)| (resource(view), view.failures))
                .collect(),
        )?;
        gauge(
            &mut encoder,
            "joinery_view_lag_microseconds",
            "From the arrival of the last changes of a view's sources until they could be read",
            views()
                .map(|(view, lag)| {
                    let lag = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
                    (resource(view), lag)
                })
                .collect(),
        )?;
        gauge(
            &mut encoder,
            "joinery_view_suspended",
            "Whether a view is read live and cannot be watched, because one of its sources was let go, of all that are together larger than --max-source-bytes",
            views()
                .map(|(view, _)| (resource(view), view.suspended.into()))
                .collect(),
        )?;
        let sources = self.0.source_report();
        let source = |gvr: &str, selector: &str| {
            vec![
                ("source", gvr.to_owned()),
                ("selector", selector.to_owned()),
            ]
        };
        gauge(
            &mut encoder,
            "joinery_source_bytes",
            "Bytes of the objects that a source's cache holds",
            sources
                .iter()
                .map(|s| (source(&s.source, &s.selector), s.bytes))
                .collect(),
        )?;
        gauge(
            &mut encoder,
            "joinery_source_healthy",
            "Whether a source is read: 0 before the first list and while upstream cannot be followed",
            sources
                .iter()
                .map(|s| (source(&s.source, &s.selector), s.is_fresh().into()))
                .collect(),
        )
    }
}
