//! The bytes of an answer, as hyper pulls them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Body, Frame, SizeHint};

use crate::budget;
use crate::budget::meter::StreamBudget;
use crate::model::range::ByteRange;
use crate::storage::{Blob, Reader};
use crate::telemetry::SPANS;
use crate::telemetry::metrics::{Direction, Held, Metrics, Outcome};
use crate::telemetry::request;

/// Why a body that has begun breaks off. The connection is cut: its declared length is never reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The budget gives no more: the lease is lost, or the process stops.
    #[error("the process may not send any more")]
    Budget(#[from] budget::Error),
    /// The file could not be read, or is shorter than promised.
    #[error("the file could not be read as promised")]
    Read(#[from] crate::storage::ReadError),
}

type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Broken>> + Send>>;

/// A range of a blob on its way to a client, piece by piece through the budget. Dropping it releases the blob's lock and
/// the place in the governor.
pub(super) struct Sending {
    pieces: Pieces,
    left: u64,
    failed: bool,
    /// Lasts as long as the body; tells at its end how much of it was sent.
    span: tracing::Span,
    length: u64,
    /// Names the request in log lines.
    request_id: Option<Arc<str>>,
    metrics: Metrics,
    _active: Held,
}

impl Sending {
    /// Waits for the first bytes of the budget, so that a stream that gets none is refused with an answer instead of
    /// breaking off behind its header.
    pub(super) async fn begin(
        blob: &Blob,
        range: ByteRange,
        mut budget: StreamBudget,
        metrics: Metrics,
    ) -> Result<Self, budget::Error> {
        let source = Source {
            reader: blob.reader(range),
            granted: budget.take(range.len()).await?,
            budget,
            left: range.len(),
        };
        let pieces = futures_util::stream::try_unfold(source, |mut source| async move {
            let piece = source.next().await?;
            Ok(piece.map(|piece| (piece, source)))
        });
        Ok(Self {
            pieces: Box::pin(pieces),
            left: range.len(),
            failed: false,
            span: tracing::info_span!(target: SPANS, "body", otel.kind = "internal", bytes = tracing::field::Empty),
            length: range.len(),
            request_id: request::current(),
            _active: metrics.transfer(Direction::Download),
            metrics,
        })
    }
}

struct Source {
    reader: Reader,
    budget: StreamBudget,
    /// Bytes that the budget has given and that are not sent yet.
    granted: u64,
    left: u64,
}

impl Source {
    async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        if self.left == 0 {
            self.budget.check()?;
            return Ok(None);
        }
        if self.granted == 0 {
            self.granted = self.budget.take(self.left).await?;
        }
        let most = usize::try_from(self.granted).unwrap_or(usize::MAX);
        let Some(piece) = self.reader.next(most).await? else {
            return Ok(None);
        };
        self.granted -= piece.len() as u64;
        self.left -= piece.len() as u64;
        // Asked before the piece goes out, so that a process that has lost its lease never completes a body.
        self.budget.check()?;
        Ok(Some(piece))
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match ready!(self.pieces.as_mut().poll_next(cx)) {
            Some(Ok(piece)) => {
                self.left = self.left.saturating_sub(piece.len() as u64);
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Some(Err(broken)) => {
                self.failed = true;
                log(&broken, self.request_id.as_deref());
                Poll::Ready(Some(Err(broken)))
            }
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn log(broken: &Broken, request_id: Option<&str>) {
    use crate::model::failure::{Classify as _, Kind};
    match broken {
        Broken::Read(error) if error.kind() == Kind::IntegrityMismatch => {
            tracing::error!(code = "download.integrity_mismatch", requestId = request_id);
        }
        Broken::Read(error) => tracing::error!(
            code = "download.read_failed",
            requestId = request_id,
            errorName = error.name(),
            errno = error.errno(),
        ),
        Broken::Budget(_) => {}
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.span.record("bytes", self.length - self.left);
        self.metrics.download(match (self.failed, self.left) {
            (true, _) => Outcome::Failed,
            (false, 0) => Outcome::Completed,
            (false, _) => Outcome::Aborted,
        });
    }
}
