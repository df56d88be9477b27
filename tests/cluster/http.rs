//! A client that shows everything: status, headers, and a body that can be left in the middle.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::{Bytes, BytesMut};
use reqwest::header::{HeaderMap, IF_RANGE, RANGE};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

/// The repository that the owner's key covers.
pub(crate) const REPOSITORY: &str = "releases";

/// Speaks with the owner's key, each request on a connection of its own.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    key: Option<String>,
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Http {
    pub(crate) fn with_key(key: &str) -> anyhow::Result<Self> {
        Ok(Self {
            key: Some(key.to_owned()),
            ..Self::without_key()?
        })
    }

    pub(crate) fn without_key() -> anyhow::Result<Self> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(0)
            .connect_timeout(Duration::from_secs(5))
            .read_timeout(Duration::from_secs(30))
            .build()?;
        Ok(Self { client, key: None })
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    pub(crate) fn request(&self, method: Method, url: &str) -> RequestBuilder {
        let request = self.client.request(method, url);
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub(crate) async fn send(&self, method: Method, url: &str) -> anyhow::Result<Answer> {
        Answer::of(self.request(method, url)).await
    }

    pub(crate) async fn get(&self, url: &str) -> anyhow::Result<Answer> {
        self.send(Method::GET, url).await
    }

    pub(crate) async fn put(&self, url: &str, body: impl Into<Bytes>) -> anyhow::Result<Answer> {
        Answer::of(self.request(Method::PUT, url).body(body.into())).await
    }

    /// A download whose body is read by hand.
    pub(crate) async fn begin(&self, url: &str) -> anyhow::Result<Download> {
        Download::of(self.request(Method::GET, url)).await
    }

    /// The rest of a file from a place on, if the file is still the one with this tag.
    pub(crate) async fn resume(&self, url: &str, from: usize, tag: &str) -> anyhow::Result<Download> {
        let range = format!("bytes={from}-");
        Download::of(
            self.request(Method::GET, url)
                .header(RANGE, range)
                .header(IF_RANGE, tag),
        )
        .await
    }
}

impl Answer {
    pub(crate) async fn of(request: RequestBuilder) -> anyhow::Result<Self> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Self {
            status,
            headers,
            body: response.bytes().await?,
        })
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }

    /// Which process answered.
    pub(crate) fn slot(&self) -> anyhow::Result<u8> {
        slot(&self.headers)
    }

    pub(crate) fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {:?}", self.body))
    }

    /// The code of an error, with its reason where there is one.
    pub(crate) fn error(&self) -> anyhow::Result<String> {
        let body = self.json()?;
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        ensure!(
            text("requestId") == self.header("x-request-id"),
            "another request id in the body: {body}"
        );
        let reason = text("reason");
        Ok(if reason.is_empty() {
            text("code")
        } else {
            format!("{}/{reason}", text("code"))
        })
    }
}

/// A running download.
pub(crate) struct Download {
    response: Response,
    pub(crate) received: BytesMut,
}

impl Download {
    async fn of(request: RequestBuilder) -> anyhow::Result<Self> {
        let response = request.send().await?;
        let status = response.status();
        if !status.is_success() {
            bail!("{status} instead of a body: {}", response.text().await?);
        }
        Ok(Self {
            response,
            received: BytesMut::new(),
        })
    }

    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn slot(&self) -> anyhow::Result<u8> {
        slot(self.response.headers())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        header(self.response.headers(), name)
    }

    /// The next bytes, or none when the body is complete. A body that breaks off is an error.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        Ok(self.response.chunk().await?)
    }

    /// Reads and keeps bytes until there are at least `count` of them.
    pub(crate) async fn read_to(&mut self, count: usize) -> anyhow::Result<()> {
        while self.received.len() < count {
            let chunk = self.next().await?;
            let chunk = chunk.with_context(|| format!("the body ended after {} bytes", self.received.len()))?;
            self.received.extend_from_slice(&chunk);
        }
        Ok(())
    }

    /// Reads and keeps everything that comes, and says whether the body is whole; otherwise it broke off.
    pub(crate) async fn read_to_end(&mut self) -> bool {
        loop {
            match self.next().await {
                Ok(Some(chunk)) => self.received.extend_from_slice(&chunk),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn slot(headers: &HeaderMap) -> anyhow::Result<u8> {
    header(headers, "x-arkvory-slot")
        .parse()
        .context("an answer without X-Arkvory-Slot")
}

/// The path of a file's contents, for behind the address of a process or of HAProxy.
pub(crate) fn raw(path: &str) -> String {
    format!("/api/v1/repositories/{REPOSITORY}/raw/{path}")
}

/// Bytes that look random and are the same every time.
pub(crate) fn noise(seed: u64, length: usize) -> Bytes {
    let mut state = seed;
    let mut bytes = BytesMut::with_capacity(length + 8);
    while bytes.len() < length {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes.freeze()
}
