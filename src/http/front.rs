//! The front door: every request passes the checks of docs/spec/http-api.md 2.2, in that order, and every answer gets
//! the headers that all answers have.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use tracing::Instrument as _;
use uuid::Uuid;

use super::app::App;
use super::connection::{Connection, Traffic};
use super::problem::Problem;
use super::routes::Routes;
use crate::auth::{self, Caller};
use crate::clock::Moment;
use crate::model::member::Role;
use crate::telemetry::SPANS;
use crate::telemetry::metrics::{self, Held};
use crate::telemetry::request;
use crate::telemetry::traces;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_ARKVORY_SLOT: HeaderName = HeaderName::from_static("x-arkvory-slot");

/// State of the front door.
#[derive(Clone)]
pub(super) struct Front {
    pub(super) app: Arc<App>,
    pub(super) routes: Arc<Routes>,
}

/// What a request turned out to be.
#[derive(Clone)]
struct Asked {
    method: Method,
    /// The route's template, never the path itself: labels and logs stay bounded and tell no names.
    route: &'static str,
    health: bool,
    id: Arc<str>,
    trace: Option<String>,
    client: Option<IpAddr>,
    began: Moment,
    connection: Option<Arc<Connection>>,
}

/// Checks a request, has it answered, and accounts for the answer.
pub(super) async fn pass(State(front): State<Front>, request: Request, next: Next) -> Response {
    let asked = Asked::of(&front, &request);
    let span = tracing::info_span!(
        target: SPANS,
        "request",
        otel.kind = "server",
        http.request.method = %asked.method,
        http.route = asked.route,
        http.response.status_code = tracing::field::Empty,
    );
    traces::continue_from(&span, request.headers());
    let counted = (!asked.health).then(|| front.app.metrics.in_flight());

    let mut unanswered = Unanswered(Some((front.clone(), asked.clone())));
    let mut principal = None;
    let response = async {
        let admission = tracing::info_span!(target: SPANS, "admission", otel.kind = "internal");
        match admission.in_scope(|| front.check(&asked, request, &mut principal)) {
            Ok(request) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    };
    let response = request::on_behalf_of(asked.id.clone(), response.instrument(span.clone())).await;
    unanswered.0 = None;
    let response = front.dress(&asked, response);
    span.record("http.response.status_code", response.status().as_u16());
    front.account(asked, response, principal, counted, span)
}

impl Asked {
    fn of(front: &Front, request: &Request) -> Self {
        let template = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let route = template
            .and_then(|template| front.routes.template(template))
            .unwrap_or(metrics::UNMATCHED);
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let headers = request.headers();
        let peer = connection.as_ref().map(|connection| connection.peer);
        let trusted = peer.is_some_and(|peer| front.trusts(peer.ip()));
        Self {
            method: request.method().clone(),
            route,
            health: route.starts_with("/health/"),
            id: request_id(headers, trusted),
            trace: traces::trace_id(headers),
            client: front.client(headers, peer),
            began: front.app.clock.now(),
            connection,
        }
    }
}

/// Counts and logs a request whose client left before there was an answer: then its future is dropped.
struct Unanswered(Option<(Front, Asked)>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        let Some((front, asked)) = self.0.take() else { return };
        let connection = asked.connection.clone();
        // As proxies count it: 499, "client closed request".
        let Ok(left) = StatusCode::from_u16(499) else { return };
        let record = front.record(asked, left, None);
        match connection {
            Some(connection) => connection.on_answered(record),
            None => record(Traffic::default()),
        }
    }
}

/// Our own id, unless a trusted proxy gave a good one (docs/spec/http-api.md 2.1).
fn request_id(headers: &HeaderMap, trusted: bool) -> Arc<str> {
    let mut given = headers.get_all(X_REQUEST_ID).iter();
    let only = match (given.next(), given.next()) {
        (Some(only), None) if trusted => only.to_str().ok(),
        _ => None,
    };
    let good = |id: &&str| {
        let tail = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b':' | b'-');
        (8..=128).contains(&id.len()) && id.as_bytes()[0].is_ascii_alphanumeric() && id.bytes().all(tail)
    };
    only.filter(good)
        .map_or_else(|| Uuid::new_v4().to_string().into(), Arc::from)
}

impl Front {
    fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.app.trusted_proxies.iter().any(|net| net.contains(&address))
    }

    /// The client's address: the right-most one that no trusted proxy has.
    fn client(&self, headers: &HeaderMap, peer: Option<SocketAddr>) -> Option<IpAddr> {
        let mut client = peer?.ip().to_canonical();
        let forwarded: Vec<&str> = headers
            .get_all(X_FORWARDED_FOR)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .collect();
        for address in forwarded.iter().rev() {
            if !self.trusts(client) {
                break;
            }
            let Ok(address) = address.parse::<IpAddr>() else { break };
            client = address.to_canonical();
        }
        Some(client)
    }

    /// The numbers are those of docs/spec/http-api.md 2.2.
    fn check(
        &self,
        asked: &Asked,
        mut request: Request,
        principal: &mut Option<Arc<Caller>>,
    ) -> Result<Request, Problem> {
        let app = &self.app;
        // 2: these two answer always, and to anyone.
        if matches!(asked.route, "/health/live" | "/health/status") && is_read(&asked.method) {
            return Ok(request);
        }
        // 3: the same with and without credentials.
        let Some(methods) = self.routes.methods(asked.route) else {
            return Err(Problem::no_route().closing_unread(&request));
        };
        if !methods.contains(&asked.method) {
            let reader = app.member.role == Role::Reader && !is_read(&asked.method);
            let problem = if reader && !self.routes.knows(&asked.method) {
                Problem::read_only()
            } else {
                Problem::wrong_method(methods.allow())
            };
            return Err(problem.closing_unread(&request));
        }
        // 4
        if !asked.health && app.is_draining() {
            return Err(Problem::draining());
        }
        // 5
        if !app.trust.holds() {
            return Err(Problem::lost().closing_unread(&request));
        }
        if !is_read(&asked.method) && app.publish.as_ref().is_some_and(|publish| !publish.right.allowed()) {
            return Err(Problem::lost().closing_unread(&request));
        }
        // 10
        let authorization = request
            .headers()
            .get_all(AUTHORIZATION)
            .iter()
            .map(HeaderValue::as_bytes);
        let caller = auth::bearer(authorization).and_then(|secret| app.keys.identify(secret));
        let caller = caller.map_err(|refusal| Problem::from_error(&refusal).closing_unread(&request))?;
        *principal = Some(caller.clone());
        // 12
        if app.member.role == Role::Reader && !is_read(&asked.method) {
            return Err(Problem::read_only().closing_unread(&request));
        }
        request.extensions_mut().insert(caller);
        Ok(request)
    }

    /// Renders a refusal, and adds what every answer has.
    fn dress(&self, asked: &Asked, mut response: Response) -> Response {
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            response = problem.render(&asked.id);
        }
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
        if let Ok(id) = HeaderValue::try_from(&*asked.id) {
            headers.insert(X_REQUEST_ID, id);
        }
        if let Some(place) = self.app.member.place {
            headers.insert(X_ARKVORY_SLOT, HeaderValue::from(u16::from(place.slot.number())));
        }
        if self.app.is_draining() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Counts and logs the answer once it is out, or lost.
    fn account(
        &self,
        asked: Asked,
        response: Response,
        principal: Option<Arc<Caller>>,
        counted: Option<Held>,
        span: tracing::Span,
    ) -> Response {
        let connection = asked.connection.clone();
        let record = self.record(asked, response.status(), principal);
        response.map(|body| {
            let left = body.size_hint().exact();
            Body::new(Accounted {
                body,
                left,
                connection,
                record: Some(record),
                _counted: counted,
                _span: span,
            })
        })
    }

    /// What is done with a request when it is over.
    fn record(&self, asked: Asked, status: StatusCode, principal: Option<Arc<Caller>>) -> Record {
        let app = self.app.clone();
        Box::new(move |traffic: Traffic| {
            let duration = app.clock.now().since(asked.began);
            app.metrics.request(metrics::Request {
                method: &asked.method,
                route: Some(asked.route),
                status,
                duration,
                received: traffic.received,
                sent: traffic.sent,
            });
            let quiet = matches!(asked.route, "/health/live" | "/health/status") && status.is_success();
            if app.access_log && !quiet {
                access(&asked, status, duration, traffic, principal.as_deref());
            }
        })
    }
}

fn access(asked: &Asked, status: StatusCode, duration: Duration, traffic: Traffic, principal: Option<&Caller>) {
    tracing::info!(
        code = "http.access",
        requestId = &*asked.id,
        traceId = asked.trace,
        method = asked.method.as_str(),
        route = asked.route,
        status = status.as_u16(),
        durationMs = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        bytesSent = traffic.sent,
        bytesReceived = traffic.received,
        principal = principal.map(|caller| caller.principal.as_str()),
        clientIp = asked.client.map(|client| client.to_string()),
        completed = traffic.flushed,
    );
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

type Record = Box<dyn FnOnce(Traffic) + Send>;

/// A body that knows when it is over. Until then its request counts as in flight.
struct Accounted {
    body: Body,
    /// Bytes still to come, if the body knows.
    left: Option<u64>,
    connection: Option<Arc<Connection>>,
    record: Option<Record>,
    _counted: Option<Held>,
    _span: tracing::Span,
}

impl http_body::Body for Accounted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let (Some(Ok(frame)), Some(left)) = (&frame, self.left) {
            self.left = Some(left.saturating_sub(frame.data_ref().map_or(0, Bytes::len) as u64));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Accounted {
    fn drop(&mut self) {
        let Some(record) = self.record.take() else { return };
        let whole = self.left == Some(0) || self.body.is_end_stream();
        let record = move |traffic: Traffic| {
            record(Traffic {
                flushed: traffic.flushed && whole,
                ..traffic
            });
        };
        match &self.connection {
            Some(connection) => connection.on_answered(Box::new(record)),
            None => record(Traffic {
                received: 0,
                sent: 0,
                flushed: whole,
            }),
        }
    }
}
