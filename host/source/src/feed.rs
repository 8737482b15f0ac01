//! What keeps a [`SourceCache`](crate::SourceCache) up to date: list, then watch, again and again.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use imbl::OrdMap;
use joinery_object::{Object, ObjectKey};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tracing::{debug, info, warn};

use crate::cache::Shared;
use crate::upstream::{Query, UpstreamError, UpstreamEvent};

/// Objects a page of the first list: large enough to be quick, small enough to fit any server's limits.
const PAGE: u32 = 500;
/// The first wait after a failure; it doubles up to [`LONGEST_WAIT`].
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A stream that ends sooner is waited after as after a failure, so that a server which ends each at once is not flooded.
const SHORTEST_STREAM: Duration = Duration::from_secs(1);
/// A stream is renewed after so long: upstream ends it sooner, but the end of a connection that died never arrives.
const LONGEST_STREAM: Duration = Duration::from_secs(300);
/// After so long without a message upstream is asked whether it is still there.
pub(crate) const SILENCE: Duration = Duration::from_secs(45);
/// So long a small answer may take. With [`SILENCE`], an upstream that hangs is noticed within a minute.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// So long a page of a list may take.
pub(crate) const PAGE_ANSWER: Duration = Duration::from_secs(60);

/// A new stream tells what there is to tell within this time, as a rule.
const QUIET: Duration = Duration::from_secs(1);

/// Between lists that are made only because a reader wants to know that nothing is missing.
const LIST_PERIOD: Duration = Duration::from_secs(5);

/// After so long a source that was too large is tried again; it doubles up to [`LONGEST_REST`].
const SHORTEST_REST: Duration = Duration::from_secs(30);
const LONGEST_REST: Duration = Duration::from_secs(600);

/// Feeds a cache until the task is aborted.
pub(crate) async fn feed(shared: Arc<Shared>) {
    let mut rest = SHORTEST_REST;
    loop {
        let begun = Instant::now();
        tokio::select! {
            biased;
            () = shared.too_large() => {}
            () = fill(&shared) => {}
        }
        if begun.elapsed() > LONGEST_REST {
            rest = SHORTEST_REST;
        }
        loop {
            sleep(rest).await;
            rest = (rest * 2).min(LONGEST_REST);
            if shared.budget.has_room() {
                break;
            }
        }
        info!(source = %shared.spec.gvr, "there is room again, listing");
        shared.begin_anew();
    }
}

/// Lists and follows for as long as what is held is not too large.
async fn fill(shared: &Shared) {
    let mut wait = SHORTEST_WAIT;
    let mut list_again = true;
    let mut listed = Instant::now();
    // Whether all has been told up to the end of the last stream: it was not broken, and lived.
    let mut whole = false;
    loop {
        let started = Instant::now();
        let result = if list_again {
            listed = started;
            list(shared, whole).await
        } else {
            tokio::select! {
                result = follow(shared) => match result {
                    Ok(ended) => {
                        whole = ended;
                        Ok(())
                    }
                    // It may be so old that it cannot even begin; then the one before it counts.
                    Err(error) => {
                        whole &= matches!(error, UpstreamError::Expired(_))
                            && started.elapsed() < SHORTEST_STREAM;
                        Err(error)
                    }
                },
                () = wanted(shared, listed + LIST_PERIOD) => {
                    list_again = true;
                    // The stream may trail, for all that is known.
                    whole = is_quiet(shared).await;
                    continue;
                }
            }
        };
        if list_again && result.is_err() {
            // Until the next one anything may happen.
            whole = false;
        }
        match result {
            Ok(()) if list_again => list_again = false,
            Ok(()) if started.elapsed() >= SHORTEST_STREAM => wait = SHORTEST_WAIT,
            Ok(()) => pause(&mut wait).await,
            Err(UpstreamError::NoSuchResource(_)) if shared.spec.optional => {
                shared.heard();
                shared.gone();
                list_again = true;
                sleep(LONGEST_WAIT).await;
            }
            Err(UpstreamError::Expired(why)) => {
                debug!(source = %shared.spec.gvr, why, "history is gone, listing again");
                // A list whose pages expire is begun again too, but not in a hurry.
                if list_again {
                    pause(&mut wait).await;
                }
                list_again = true;
            }
            Err(error) => {
                // A resource that was there and is gone has lost its objects.
                list_again |= matches!(error, UpstreamError::NoSuchResource(_));
                warn!(source = %shared.spec.gvr, %error, "source cannot be read, trying again");
                shared.report(&error);
                pause(&mut wait).await;
            }
        }
    }
}

async fn pause(wait: &mut Duration) {
    sleep(*wait).await;
    *wait = (*wait * 2).min(LONGEST_WAIT);
}

/// An answer, or the error that says that there was none.
pub(crate) async fn within<T>(
    patience: Duration,
    answer: impl Future<Output = Result<T, UpstreamError>>,
) -> Result<T, UpstreamError> {
    timeout(patience, answer).await.unwrap_or_else(|_| {
        let seconds = patience.as_secs();
        let why = format!("upstream gave no answer for {seconds} s");
        Err(UpstreamError::Unreachable(why))
    })
}

async fn list(shared: &Shared, gapless: bool) -> Result<(), UpstreamError> {
    let (upstream, gvr) = (&shared.upstream, &shared.spec.gvr);
    let mut query = Query {
        limit: PAGE,
        ..shared.spec.query()
    };
    let mut objects: OrdMap<ObjectKey, Arc<Object>> = OrdMap::new();
    // What is listed again is, as a rule, mostly what is held.
    let count = !shared.synced();
    if count {
        shared.forget_bytes();
    }
    loop {
        let page = within(PAGE_ANSWER, upstream.list(gvr, &query)).await?;
        shared.heard();
        if count {
            shared.add_bytes(page.items.iter().map(|object| object.len()).sum());
            shared.budget.enforce();
            if shared.is_too_large() {
                // Whoever waits for this gives it up.
                std::future::pending::<()>().await;
            }
        }
        objects.extend(page.items.into_iter().map(|o| (o.key().clone(), o)));
        if page.continue_token.is_some() {
            query.continue_token = page.continue_token;
            continue;
        }
        info!(
            source = %gvr, selector = %shared.spec.label_selector,
            objects = objects.len(), position = page.position, "source listed"
        );
        shared.replace(objects, page.position, gapless);
        shared.wanted.send_replace(0);
        return Ok(());
    }
}

/// Waits until a reader wants a position that the stream has not brought.
async fn wanted(shared: &Shared, not_before: Instant) {
    let mut wanted = shared.wanted.subscribe();
    loop {
        sleep_until(not_before).await;
        if *wanted.borrow_and_update() > shared.position() {
            return;
        }
        if wanted.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether a new stream has nothing to tell of what came after the last message. Not even a new one knows more than upstream has
/// told it within [`QUIET`]; but it is not held up by whatever holds up the old one.
async fn is_quiet(shared: &Shared) -> bool {
    let query = shared.spec.query();
    let stream = shared
        .upstream
        .watch(&shared.spec.gvr, &query, shared.position());
    let Ok(mut events) = within(ANSWER, stream).await else {
        return false;
    };
    let quiet = async {
        loop {
            match events.next().await {
                Some(Ok(UpstreamEvent::Bookmark(_))) => {}
                // Something came, or the stream went.
                _ => return,
            }
        }
    };
    timeout(QUIET, quiet).await.is_err()
}

/// A small question to which a living upstream has an answer: its position.
pub(crate) async fn probe(shared: &Shared) -> Result<u64, UpstreamError> {
    let query = Query {
        limit: 1,
        ..shared.spec.query()
    };
    let page = within(ANSWER, shared.upstream.list(&shared.spec.gvr, &query)).await?;
    shared.heard();
    Ok(page.position)
}

/// Watches until the stream ends. Whether upstream ended it, so that all has been told up to there.
async fn follow(shared: &Shared) -> Result<bool, UpstreamError> {
    let (upstream, spec) = (&shared.upstream, &shared.spec);
    let query = spec.query();
    let stream = upstream.watch(&spec.gvr, &query, shared.position());
    let mut events = within(ANSWER, stream).await?;
    shared.heard();
    let end = Instant::now() + LONGEST_STREAM;
    loop {
        let next = timeout_at(end.min(Instant::now() + SILENCE), events.next()).await;
        match next {
            Ok(None) => return Ok(true),
            Ok(Some(event)) => {
                let event = event?;
                shared.heard();
                match event {
                    UpstreamEvent::Change(kind, object) => shared.apply(kind, object),
                    UpstreamEvent::Bookmark(position) => shared.advance(position),
                }
            }
            Err(_) if Instant::now() >= end => return Ok(false),
            Err(_) => {
                probe(shared).await?;
            }
        }
    }
}
