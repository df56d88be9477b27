//! A TCP proxy that can be disturbed, to put between a process and its database.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A link to `target`. It ends with this value.
pub(crate) struct Chaos {
    address: SocketAddr,
    link: watch::Sender<Link>,
    _tasks: JoinSet<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Bytes go through.
    Open,
    /// Connections stand and are accepted, but nothing goes through, not even an end.
    Frozen,
    /// Connections are cut and refused.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    state: State,
    /// Connections accepted so far.
    accepted: u64,
    /// Connections before this one stay frozen.
    stuck: u64,
}

impl Chaos {
    /// An open link to `target` (host and port).
    pub(crate) async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let link = watch::Sender::new(Link {
            state: State::Open,
            accepted: 0,
            stuck: 0,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, target, link.clone()));
        Self {
            address,
            link,
            _tasks: tasks,
        }
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Freezes the link in both directions.
    pub(crate) fn freeze(&self) {
        self.set(State::Frozen);
    }

    /// Cuts all connections and refuses new ones.
    pub(crate) fn refuse(&self) {
        self.set(State::Refused);
    }

    /// Lets bytes through again.
    pub(crate) fn restore(&self) {
        self.set(State::Open);
    }

    /// Lets new connections through; those that exist now stay frozen for ever.
    pub(crate) fn restore_for_new_connections(&self) {
        self.link.send_modify(|link| {
            link.stuck = link.accepted;
            link.state = State::Open;
        });
    }

    fn set(&self, state: State) {
        self.link.send_modify(|link| link.state = state);
    }
}

async fn accept(listener: TcpListener, target: String, link: watch::Sender<Link>) {
    let address = listener.local_addr().expect("address");
    let mut watched = link.subscribe();
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        let Some(listening) = &listener else {
            let _ = watched.wait_for(|link| link.state != State::Refused).await;
            match TcpListener::bind(address).await {
                Ok(bound) => listener = Some(bound),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
            continue;
        };
        tokio::select! {
            _ = watched.wait_for(|link| link.state == State::Refused) => listener = None,
            accepted = listening.accept() => {
                let Ok((client, _)) = accepted else { continue };
                let mut number = 0;
                link.send_modify(|link| {
                    number = link.accepted;
                    link.accepted += 1;
                });
                connections.spawn(carry(client, target.clone(), link.subscribe(), number));
            }
        }
    }
}

async fn carry(client: TcpStream, target: String, mut link: watch::Receiver<Link>, number: u64) {
    let mut cut = link.clone();
    let both = async {
        passable(&mut link, number).await;
        let Ok(server) = TcpStream::connect(target).await else {
            return;
        };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::join!(
            pass(from_client, to_server, link.clone(), number),
            pass(from_server, to_client, link.clone(), number),
        );
    };
    tokio::select! {
        () = both => {}
        _ = cut.wait_for(|link| link.state == State::Refused) => {}
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut link: watch::Receiver<Link>,
    number: u64,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        passable(&mut link, number).await;
        if read == 0 {
            let _ = to.shutdown().await;
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn passable(link: &mut watch::Receiver<Link>, number: u64) {
    let _ = link
        .wait_for(|link| link.state == State::Open && number >= link.stuck)
        .await;
}
