//! Requests byte by byte, for what a well-behaved client never sends.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::process::{Process, Slot};
use super::talk::Answer;

/// How long the server may be silent.
const SILENCE: Duration = Duration::from_secs(20);

/// A connection of our own.
pub(crate) struct Wire {
    stream: TcpStream,
    slot: Slot,
    /// Bytes that came and were not taken yet.
    ahead: Vec<u8>,
}

impl Wire {
    /// Connects to a process.
    pub(crate) async fn open(process: &Process) -> Self {
        let stream = TcpStream::connect(process.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            slot: process.slot,
            ahead: Vec::new(),
        }
    }

    /// The head of a request with a credential; `more` are further header lines, each with its end.
    pub(crate) fn head(method: &str, path: &str, key: &str, more: &str) -> String {
        format!("{method} {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {key}\r\n{more}\r\n")
    }

    /// Sends bytes.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends bytes; false when the server takes no more.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> bool {
        timeout(SILENCE, self.stream.write_all(bytes))
            .await
            .is_ok_and(|sent| sent.is_ok())
    }

    /// Takes the whole answer, checked as every answer. `None` if the connection ends without one.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let (status, headers) = self.answer_head().await?;
        let length = headers
            .get("content-length")
            .map_or(0, |length| length.to_str().unwrap().parse().unwrap());
        let body = self.take(length).await;
        assert_eq!(body.len(), length, "the body ends early");
        let answer = Answer {
            status,
            headers,
            body: body.into(),
        };
        answer.check(false, "", self.slot);
        Some(answer)
    }

    /// Takes the head of an answer.
    pub(crate) async fn answer_head(&mut self) -> Option<(u16, HeaderMap)> {
        let end = loop {
            if let Some(end) = self.ahead.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if self.more().await == 0 {
                return None;
            }
        };
        let head = String::from_utf8(self.ahead.drain(..end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(':').unwrap();
            let name = HeaderName::try_from(name).unwrap();
            headers.append(name, HeaderValue::try_from(value.trim()).unwrap());
        }
        Some((status, headers))
    }

    /// Takes `count` bytes, or as many as come until the connection ends.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.ahead.len() < count {
            if self.more().await == 0 {
                break;
            }
        }
        let count = count.min(self.ahead.len());
        self.ahead.drain(..count).collect()
    }

    /// Takes everything until the server ends the connection.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await > 0 {}
        std::mem::take(&mut self.ahead)
    }

    /// Takes one byte, and no more than one from the kernel either; `None` at the end.
    pub(crate) async fn byte(&mut self) -> Option<u8> {
        if !self.ahead.is_empty() {
            return Some(self.ahead.remove(0));
        }
        let mut byte = [0];
        let read = timeout(SILENCE, self.stream.read(&mut byte))
            .await
            .expect("the server goes on");
        read.is_ok_and(|count| count == 1).then_some(byte[0])
    }

    /// Sends no more, but still listens.
    pub(crate) async fn finish_sending(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Whether nothing comes for `span`.
    pub(crate) async fn is_silent_for(&mut self, span: Duration) -> bool {
        self.ahead.is_empty() && timeout(span, self.more()).await.is_err()
    }

    /// Reads what comes; 0 at the end, also after a reset.
    async fn more(&mut self) -> usize {
        self.ahead.reserve(16 * 1024);
        let read = timeout(SILENCE, self.stream.read_buf(&mut self.ahead)).await;
        read.expect("the server goes on or ends").unwrap_or(0)
    }
}
