//! One connection of a client: counts its bytes, tells when an answer is really out, and closes without losing it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// How long, and how much, a closing connection goes on reading what the client still sends. Closing at once would
/// reset the connection, and the client could lose the answer (docs/spec/http-api.md 2.5).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 1024 * 1024;

/// How long a client may take nothing of an answer (docs/spec/http-api.md 2.1). There is no limit on the whole.
const STALLED: Duration = Duration::from_mins(2);

/// What one exchange moved over the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    /// Bytes from the client, headers included.
    pub(super) received: u64,
    /// Bytes to the client, headers included.
    pub(super) sent: u64,
    /// Whether all of the answer was handed to the kernel.
    pub(super) flushed: bool,
}

type Closing = Box<dyn FnOnce(Traffic) + Send>;

/// The part of a connection that requests see.
pub(super) struct Connection {
    /// The other end of the socket: HAProxy, or the client itself.
    pub(super) peer: SocketAddr,
    received: AtomicU64,
    sent: AtomicU64,
    exchange: Mutex<Exchange>,
}

/// Counters at the end of the last exchange, and what to do at the end of this one.
#[derive(Default)]
struct Exchange {
    received: u64,
    sent: u64,
    closing: Option<Closing>,
    /// Whether the socket is gone: then nothing will be flushed any more.
    over: bool,
}

impl Connection {
    fn new(peer: SocketAddr) -> Self {
        Self {
            peer,
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            exchange: Mutex::default(),
        }
    }

    /// Calls `closing` when the answer whose body has just ended is flushed, or will never be.
    ///
    /// A connection that breaks takes its socket down before the body of its answer.
    pub(super) fn on_answered(&self, closing: Closing) {
        // Of a client that does not wait for answers, the last one may still be on its way.
        self.settle(false);
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        exchange.closing = Some(closing);
        let over = exchange.over;
        drop(exchange);
        if over {
            self.settle(false);
        }
    }

    fn end(&self) {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.settle(false);
    }

    fn settle(&self, flushed: bool) {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(closing) = exchange.closing.take() else { return };
        let (received, sent) = (self.received.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed));
        let traffic = Traffic {
            received: received - exchange.received,
            sent: sent - exchange.sent,
            flushed,
        };
        (exchange.received, exchange.sent) = (received, sent);
        drop(exchange);
        closing(traffic);
    }
}

/// The socket under hyper.
pub(super) struct Socket {
    stream: TcpStream,
    connection: Arc<Connection>,
    lingering: Option<Lingering>,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

struct Lingering {
    until: Pin<Box<Sleep>>,
    left: usize,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr) -> Self {
        Self {
            stream,
            connection: Arc::new(Connection::new(peer)),
            lingering: None,
            stalled: None,
        }
    }

    pub(super) fn connection(&self) -> Arc<Connection> {
        self.connection.clone()
    }

    /// Counts what was written, and ends a connection on which nothing can be written for too long.
    fn progress(
        &mut self,
        written: Poll<std::io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        match written {
            Poll::Pending => {
                let stalled = self
                    .stalled
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(STALLED)));
                ready!(stalled.as_mut().poll(cx));
                Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()))
            }
            Poll::Ready(written) => {
                self.stalled = None;
                let written = written?;
                self.connection.sent.fetch_add(written as u64, Ordering::Relaxed);
                Poll::Ready(Ok(written))
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.connection.end();
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.connection
            .received
            .fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.progress(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.progress(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes here when its own buffer is empty, so everything is with the kernel.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.connection.settle(true);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        let lingering = match &mut this.lingering {
            Some(lingering) => lingering,
            none => {
                ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
                this.connection.settle(true);
                none.insert(Lingering {
                    until: Box::pin(tokio::time::sleep(LINGER)),
                    left: LINGER_BYTES,
                })
            }
        };
        let mut scratch = [0; 16 * 1024];
        while lingering.left > 0 && lingering.until.as_mut().poll(cx).is_pending() {
            let mut buf = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {
                    lingering.left = lingering.left.saturating_sub(buf.filled().len());
                }
                // The client has closed too, or is gone: the answer is out, whatever this says.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    /// The clock runs on by itself where nothing else can happen.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let mut socket = Socket::new(stream, peer);
        let began = tokio::time::Instant::now();
        let error = socket.write_all(&vec![0; 64 * 1024 * 1024]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= STALLED, "{:?}", began.elapsed());
        drop(client);
    }
}
