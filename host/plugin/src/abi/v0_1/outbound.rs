//! The `http` interface: calls to hosts that the operator lists.

use super::http;
use crate::outbound::{OutboundError, Outgoing};
use crate::state::State;

impl http::Host for State {
    async fn send(
        &mut self,
        request: http::Request,
    ) -> wasmtime::Result<Result<http::Response, http::Error>> {
        let Some(outbound) = self.outbound.clone() else {
            return Err(wasmtime::Error::msg(
                "joinery:plugin/http may be called by the verbs of a served resource only",
            ));
        };
        let outgoing = Outgoing {
            method: request.method,
            url: request.url,
            headers: request.headers,
            body: request.body,
            timeout_ms: request.timeout_ms,
        };
        let answer = outbound
            .host
            .spawn(async move { outbound.client.send(outgoing).await })
            .await?;
        Ok(match answer {
            Ok(answer) => Ok(http::Response {
                status: answer.status,
                headers: answer.headers,
                body: answer.body,
            }),
            Err(OutboundError::Denied(message)) => Err(http::Error::Denied(message)),
            Err(OutboundError::Invalid(message)) => Err(http::Error::Invalid(message)),
            Err(OutboundError::Timeout) => Err(http::Error::Timeout),
            Err(OutboundError::TooLarge(message)) => Err(http::Error::TooLarge(message)),
            Err(OutboundError::Failed(message)) => Err(http::Error::Failed(message)),
        })
    }
}
