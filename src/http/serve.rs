//! Sockets: accepting, time limits, closing in order.

use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::connection::Socket;
use crate::supervise::Tasks;

/// How long a client may take to send a request's header, and how long an idle connection is kept
/// (docs/spec/http-api.md 2.1).
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed accept: most often all descriptors are in use, and one must become free first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `closing`; then idle ones are closed at once, busy ones after their answer.
pub async fn serve(listener: TcpListener, router: Router, tasks: Tasks, closing: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Without delay, small answers are not held back for the client's acknowledgement.
                let _ = stream.set_nodelay(true);
                let socket = Socket::new(stream, peer);
                // Nobody waits for its result; a drain waits for its end.
                drop(tasks.spawn_detached_work("connection", connection(socket, router.clone(), closing.clone())));
            }
            Err(error) => {
                tracing::warn!(code = "http.accept_failed", errno = error.raw_os_error());
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(socket: Socket, router: Router, closing: CancellationToken) {
    let seen = socket.connection();
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(seen.clone());
        router.clone().oneshot(request.map(axum::body::Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = std::pin::pin!(connection);
    // What goes wrong on a connection has been accounted for with its request, or had none.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
