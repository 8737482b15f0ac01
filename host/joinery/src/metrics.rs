//! What `/metrics` says of plugins, views and sources. Read at each scrape, kept nowhere.

use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::manager::Manager;
use crate::service::ViewReport;

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
                .map(|p| (vec![plugin(&p.name)], p.stats.is_some().into()))
                .collect(),
        )?;
        gauge(
            &mut encoder,
            "joinery_plugin_refused",
            "Whether the plugin's newest file was refused, while an older generation may serve",
            plugins
                .iter()
                .map(|p| (vec![plugin(&p.name)], p.refused.into()))
                .collect(),
        )?;
        let mut calls = Vec::new();
        for (name, stats) in plugins.iter().filter_map(|p| Some((&p.name, p.stats?))) {
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
        let views = || plugins.iter().flat_map(|plugin| &plugin.views);
        let resource = |view: &ViewReport| vec![("resource", view.resource.clone())];
        gauge(
            &mut encoder,
            "joinery_view_failures",
            "Primaries that a view leaves out because the plugin fails on them",
            views()
                .map(|view| (resource(view), view.failures))
                .collect(),
        )?;
        gauge(
            &mut encoder,
            "joinery_view_lag_microseconds",
            "From the arrival of the last changes of a view's sources until they could be read",
            views()
                .map(|view| {
                    let lag = u64::try_from(view.lag.as_micros()).unwrap_or(u64::MAX);
                    (resource(view), lag)
                })
                .collect(),
        )?;
        gauge(
            &mut encoder,
            "joinery_view_suspended",
            "Whether a view is read live and cannot be watched, because a source is larger than --max-source-bytes",
            views()
                .map(|view| (resource(view), view.suspended.into()))
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
                .map(|s| (source(&s.source, &s.selector), s.healthy.into()))
                .collect(),
        )
    }
}
