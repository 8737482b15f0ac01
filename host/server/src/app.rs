//! What all requests share.

use std::sync::Arc;

use joinery_resource::{Catalog, SharedAuthorizer};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authn::Authentication;
use crate::discovery::Discovery;
use crate::health::Health;
use crate::limits::{Limits, Places};
use crate::metrics::Metrics;
use crate::openapi::OpenApi;

pub(crate) struct App {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) authentication: Authentication,
    pub(crate) authorizer: SharedAuthorizer,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Limits,
    pub(crate) places: Places,
    pub(crate) discovery: Discovery,
    pub(crate) openapi: OpenApi,
    /// Cancelled when watches are to end.
    pub(crate) closing: CancellationToken,
    /// Connections, and the WebSockets that go on beside those they came over.
    pub(crate) running: TaskTracker,
}
