//! Which URLs exist.

mod artifacts;
mod assets;
mod extract;
mod health;
mod identity;
mod raw;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, any, get};
use http::Method;
use tower_http::catch_panic::CatchPanicLayer;

use super::app::App;
use super::front::{self, Front};
use super::problem::Problem;

const READ: &str = "GET, HEAD";
const READ_AND_PUT: &str = "GET, HEAD, PUT";

/// The methods of one path.
pub(super) struct Methods {
    allow: &'static str,
    all: Vec<Method>,
}

impl Methods {
    /// As in the header `Allow`.
    pub(super) fn allow(&self) -> &'static str {
        self.allow
    }

    pub(super) fn contains(&self, method: &Method) -> bool {
        self.all.contains(method)
    }
}

/// Every path with its methods, for the front door.
#[derive(Default)]
pub(super) struct Routes(HashMap<&'static str, Methods>);

impl Routes {
    /// The template as a text that lives as long as the program.
    pub(super) fn template(&self, template: &str) -> Option<&'static str> {
        self.0.get_key_value(template).map(|(known, _)| *known)
    }

    pub(super) fn methods(&self, template: &str) -> Option<&Methods> {
        self.0.get(template)
    }

    /// Whether any path has this method.
    pub(super) fn knows(&self, method: &Method) -> bool {
        self.0.values().any(|methods| methods.contains(method))
    }
}

/// Collects routes for axum and for the front door at once, so that the two can't differ.
#[derive(Default)]
struct Doors {
    router: Router<Arc<App>>,
    routes: Routes,
}

impl Doors {
    fn on(mut self, template: &'static str, allow: &'static str, methods: MethodRouter<Arc<App>>) -> Self {
        let all = allow.split(", ").filter_map(|name| name.parse().ok()).collect();
        self.routes.0.insert(template, Methods { allow, all });
        self.router = self.router.route(template, methods);
        self
    }

    fn read<T: 'static>(self, template: &'static str, handler: impl Handler<T, Arc<App>>) -> Self {
        self.on(template, READ, get(handler))
    }
}

/// Everything that a process answers. A reader registers the same routes as the writer; the front door refuses changes
/// there (docs/spec/roles.md 1.2).
pub fn router(app: Arc<App>) -> Router {
    let doors = Doors::default()
        .read("/health/live", health::live)
        .read("/health/status", health::status)
        .read("/health/ready", health::ready)
        .read("/health/metrics", health::metrics)
        .read("/api/v1/auth/me", identity::me)
        .read("/api/v1/capabilities", identity::capabilities)
        .read("/api/v1/repositories/{repository}/artifacts", artifacts::list)
        .read("/api/v1/repositories/{repository}/artifacts/{id}", artifacts::one)
        .read(
            "/api/v1/repositories/{repository}/artifacts/{id}/content",
            artifacts::content,
        )
        .read("/api/v1/repositories/{repository}/asset", assets::one)
        .read("/api/v1/repositories/{repository}/asset/content", assets::content)
        .read("/api/v1/repositories/{repository}/asset/history", assets::history)
        .read("/api/v1/repositories/{repository}/asset/revision", assets::revision)
        .read("/api/v1/repositories/{repository}/assets", assets::list)
        .read("/api/v1/repositories/{repository}/assets/page", assets::page)
        .on(
            "/api/v1/repositories/{repository}/raw/{*path}",
            READ_AND_PUT,
            get(raw::content).put(raw::put),
        );

    let front = Front {
        app: app.clone(),
        routes: Arc::new(doors.routes),
    };
    doors
        .router
        .fallback(any(async || Problem::no_route()))
        .with_state(app)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(axum::middleware::from_fn_with_state(front, front::pass))
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> axum::response::Response {
    tracing::error!(code = "process.unhandled", errorName = "panic");
    axum::response::IntoResponse::into_response(Problem::defect())
}
