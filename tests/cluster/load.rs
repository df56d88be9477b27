//! Many clients at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::http::Http;
use crate::patience::within;

/// Clients that download a file again and again, and compare every byte, until they are told to stop. A request that
/// fails, a broken body or a wrong byte ends its client with an error.
pub(crate) struct Load {
    count: Arc<Count>,
    stop: CancellationToken,
    clients: JoinSet<anyhow::Result<()>>,
}

#[derive(Default)]
struct Count {
    received: AtomicU64,
    whole: AtomicU64,
}

impl Load {
    pub(crate) fn start(http: &Http, url: &str, content: &Bytes, clients: usize) -> Self {
        let mut load = Self {
            count: Arc::default(),
            stop: CancellationToken::new(),
            clients: JoinSet::new(),
        };
        for _ in 0..clients {
            let (http, url, content) = (http.clone(), url.to_owned(), content.clone());
            let (count, stop) = (load.count.clone(), load.stop.clone());
            load.clients.spawn(async move {
                while !stop.is_cancelled() {
                    let stopped = stop.run_until_cancelled(download(&http, &url, &content, &count));
                    stopped.await.unwrap_or(Ok(()))?;
                }
                Ok(())
            });
        }
        load
    }

    /// Payload bytes that clients have read.
    pub(crate) fn received(&self) -> u64 {
        self.count.received.load(Ordering::SeqCst)
    }

    /// Downloads that are complete.
    pub(crate) fn whole(&self) -> u64 {
        self.count.whole.load(Ordering::SeqCst)
    }

    /// Stops all clients, in the middle of what they do. Fails if one has failed.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        self.stop.cancel();
        let limit = Duration::from_secs(10);
        while let Some(client) = within("the end of a client", limit, self.clients.join_next()).await? {
            client??;
        }
        Ok(())
    }
}

async fn download(http: &Http, url: &str, content: &Bytes, count: &Count) -> anyhow::Result<()> {
    let mut download = http.begin(url).await?;
    let mut place = 0;
    while let Some(chunk) = download.next().await? {
        count.received.fetch_add(chunk.len() as u64, Ordering::SeqCst);
        let end = place + chunk.len();
        ensure!(
            content.get(place..end) == Some(&chunk),
            "wrong bytes at {place} from slot {}",
            download.slot()?
        );
        place = end;
    }
    ensure!(place == content.len(), "{place} bytes instead of {}", content.len());
    count.whole.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// Downloads a file as a patient client does: what breaks is resumed by Range, wherever it is. How often that was
/// (docs/spec/errors.md 3.4).
pub(crate) async fn download_resuming(http: &Http, url: &str, content: &Bytes) -> anyhow::Result<u32> {
    let mut place = 0;
    let mut tag: Option<String> = None;
    let mut resumed = 0;
    loop {
        let begun = match &tag {
            None => http.begin(url).await,
            Some(tag) => http.resume(url, place, tag).await,
        };
        if let Ok(mut download) = begun {
            ensure!(
                place == 0 || download.status() == 206,
                "{} instead of the rest",
                download.status()
            );
            tag = Some(download.header("etag").to_owned());
            loop {
                match download.next().await {
                    Ok(Some(chunk)) => {
                        let end = place + chunk.len();
                        ensure!(content.get(place..end) == Some(&chunk), "wrong bytes at {place}");
                        place = end;
                    }
                    Ok(None) => {
                        ensure!(place == content.len(), "{place} bytes instead of {}", content.len());
                        return Ok(resumed);
                    }
                    Err(_) => break,
                }
            }
        }
        resumed += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
