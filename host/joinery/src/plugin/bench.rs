//! `joinery plugin bench`: how fast a plugin answers.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use joinery_object::{GroupVersionResource, Status};
use joinery_plugin::Generation;
use joinery_resource::{Review, Serve, ServeRequest};
use joinery_view::SharedJoin;
use serde_json::Value;

use super::Target;
use super::inputs::{self, Files};
use super::lookup::FileLookup;
use super::record::Asked;
use super::requests::{self, Verb};
use super::run::NOTHING;
use super::view::show;

/// Ask a plugin the same over and over, and tell how many calls a second it answers and how long they take.
///
/// Of a view, the calls are those that joining the objects of --objects needs; of a stored resource, it is the admission of
/// --create or --review; of a served one, the verb of --create or --request.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  joinery plugin bench combined_tasks.wasm -f tasks.yaml -f events.yaml
  joinery plugin bench custom_task.wasm --create customtask.yaml --seconds 10 --concurrency 8")]
pub(crate) struct Bench {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    files: Files,
    /// For how long.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Calls at once; a plugin has at most 16 by default.
    #[arg(long, value_name = "CALLS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    concurrency: u64,
}

/// One question that can be put again.
#[derive(Clone)]
enum Question {
    View(SharedJoin, Arc<Asked>),
    Admit(
        Arc<Generation>,
        GroupVersionResource,
        Box<Review>,
        Arc<FileLookup>,
    ),
    Serve(Arc<dyn Serve>, Box<ServeRequest>, Verb),
}

impl Question {
    fn name(&self) -> String {
        match self {
            Self::View(_, asked) => format!("{} of {}", asked.function(), asked.inputs()),
            Self::Admit(..) => "admit".to_owned(),
            Self::Serve(_, _, verb) => verb.name().to_owned(),
        }
    }

    /// Whether it was answered.
    async fn put(&self) -> bool {
        match self {
            Self::View(join, asked) => asked.again(join).await.is_ok(),
            Self::Admit(generation, resource, review, lookup) => generation
                .admit()
                .admit(resource, (**review).clone(), lookup.clone())
                .await
                .map_or_else(|status| is_answer(&status), |_| true),
            Self::Serve(serve, request, verb) => verb
                .ask(serve, request)
                .await
                .map_or_else(|status| is_answer(&status), |_| true),
        }
    }
}

/// A refusal is an answer; a trap and a plugin that is busy are none.
fn is_answer(status: &Status) -> bool {
    status.code < 500 && status.code != 429
}

impl Bench {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let begun = Instant::now();
        let (_runtime, generation) = self.target.load().await?;
        println!("compiled and loaded in {:.1?}", begun.elapsed());
        let inputs = self.files.read(&generation)?;
        let questions = match &inputs.asked {
            Some(inputs::Asked::Review(resource, review)) => vec![Question::Admit(
                generation.clone(),
                resource.clone(),
                review.clone(),
                Arc::new(FileLookup(inputs.objects.clone())),
            )],
            Some(inputs::Asked::Verb(request, verb)) => vec![Question::Serve(
                requests::serve(&generation, &inputs),
                request.clone(),
                verb.clone(),
            )],
            None => of_views(&generation, &inputs.objects).await?,
        };
        if questions.is_empty() {
            bail!(NOTHING);
        }
        let until = Instant::now() + Duration::from_secs(self.seconds);
        let begun = Instant::now();
        let workers: Vec<_> = (0..self.concurrency)
            .map(|_| tokio::spawn(work(questions.clone(), until)))
            .collect();
        let mut times: BTreeMap<usize, Vec<Duration>> = BTreeMap::new();
        let mut unanswered = 0;
        for worker in workers {
            let (measured, failed) = worker.await?;
            unanswered += failed;
            for (question, took) in measured {
                times.entry(question).or_default().push(took);
            }
        }
        let took = begun.elapsed().as_secs_f64();
        println!("call                calls/s       p50       p99       max");
        for (question, mut times) in times {
            times.sort_unstable();
            let at = |percent: usize| times[(times.len() - 1) * percent / 100];
            println!(
                "{:<16} {:>10.0} {:>9.1?} {:>9.1?} {:>9.1?}",
                questions[question].name(),
                times.len() as f64 / took,
                at(50),
                at(99),
                at(100)
            );
        }
        let stats = generation.stats();
        println!(
            "memory of an instance: at most {} KiB; {} instances for {} calls",
            stats.memory >> 10,
            stats.instances,
            stats.calls
        );
        if unanswered > 0 {
            bail!(
                "{unanswered} calls had no answer: the plugin trapped, took too long, or was busy"
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn of_views(generation: &Arc<Generation>, objects: &[Value]) -> Result<Vec<Question>> {
    let mut questions = Vec::new();
    if objects.is_empty() {
        return Ok(questions);
    }
    for shown in show(generation, objects).await? {
        let Some(join) = generation.join(&shown.spec.resource) else {
            continue;
        };
        for (asked, _) in shown.calls.lock().drain(..) {
            if asked.inputs() > 0 {
                questions.push(Question::View(join.clone(), Arc::new(asked)));
            }
        }
    }
    Ok(questions)
}

/// Puts the questions in turn. Gives which took how long, and how many had no answer.
async fn work(questions: Vec<Question>, until: Instant) -> (Vec<(usize, Duration)>, u64) {
    let (mut times, mut unanswered) = (Vec::new(), 0);
    while Instant::now() < until {
        for (index, question) in questions.iter().enumerate() {
            let begun = Instant::now();
            if question.put().await {
                times.push((index, begun.elapsed()));
            } else {
                unanswered += 1;
            }
        }
    }
    (times, unanswered)
}
