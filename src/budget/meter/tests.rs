use std::future::Future;
use std::pin::pin;

use futures_util::FutureExt as _;
use futures_util::future::{join, join_all};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::*;
use crate::clock::{Moment, SystemClock};
use crate::model::trust::Window;

const SLOW: Rates = Rates {
    per_second: 65_536,
    per_principal: 0,
};
const SECOND: Duration = Duration::from_secs(1);

/// Follows the time of the test's runtime.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Moment {
        Moment {
            monotonic: SECOND + self.0.elapsed(),
            wall: SECOND + self.0.elapsed(),
        }
    }
}

fn meter(rates: Rates) -> (Meter, Arc<Window>) {
    metered_by(Arc::new(RuntimeClock(Instant::now())), rates)
}

fn metered_by(clock: Arc<dyn Clock>, rates: Rates) -> (Meter, Arc<Window>) {
    let now = clock.now();
    let window = Arc::new(Window::open(Duration::from_hours(1), now, now).unwrap());
    let trust = Trust::new(Arc::clone(&clock), vec![Arc::clone(&window)]);
    let meter = Meter::new(rates, Limits::for_transfers(16), clock, trust);
    for name in ["a", "b"] {
        meter.register(&PrincipalId::new(name)).unwrap();
    }
    (meter, window)
}

fn stream(meter: &Meter, name: &str) -> StreamBudget {
    meter.stream(&PrincipalId::new(name)).unwrap()
}

/// Sends `bytes`; fails if there was ever a gap of a second.
async fn send(mut stream: StreamBudget, bytes: u64) -> Result<Duration, Error> {
    let began = Instant::now();
    let mut left = bytes;
    while left > 0 {
        let asked = Instant::now();
        let granted = stream.take(left).await?;
        assert!(granted > 0 && granted <= left);
        assert!(asked.elapsed() < SECOND, "no gap");
        left -= granted;
    }
    Ok(began.elapsed())
}

/// What a stream got within `span`, without an end.
async fn within(span: Duration, mut stream: StreamBudget) -> u64 {
    let mut sent = 0;
    let endless = async {
        loop {
            sent += stream.take(u64::MAX).await.unwrap();
        }
    };
    let endless: Result<(), _> = timeout(span, endless).await;
    assert!(endless.is_err());
    sent
}

async fn none_waits_after<T>(meter: &Meter, work: impl Future<Output = T>) -> T {
    let result = work.await;
    assert_eq!(meter.snapshot().waiting, 0);
    result
}

#[tokio::test(start_paused = true)]
async fn paced_to_the_rate() {
    let (meter, _window) = meter(SLOW);
    let took = none_waits_after(&meter, send(stream(&meter, "a"), 5 * 65_536))
        .await
        .unwrap();
    assert!(
        took >= Duration::from_millis(4_900) && took < Duration::from_millis(5_100),
        "{took:?}"
    );
    let snapshot = Snapshot {
        bytes_per_second: 65_536,
        per_principal_bytes_per_second: 0,
        burst_bytes: 6_553,
        per_principal_burst_bytes: 0,
        waiting: 0,
        granted_bytes: 5 * 65_536,
        quantum: 6_553,
    };
    assert_eq!(meter.snapshot(), snapshot);
}

#[tokio::test(start_paused = true)]
async fn one_principal_is_paced_whatever_its_streams() {
    let (meter, _window) = meter(Rates {
        per_second: 0,
        per_principal: 65_536,
    });
    let two = join(send(stream(&meter, "a"), 131_072), send(stream(&meter, "a"), 131_072));
    let ((first, second), other) = join(two, send(stream(&meter, "b"), 131_072)).await;
    let last = first.unwrap().max(second.unwrap());
    assert!(last >= Duration::from_millis(3_700), "{last:?}");
    assert!(other.unwrap() + Duration::from_millis(500) < last);
}

#[tokio::test(start_paused = true)]
async fn principals_share_alike_whatever_their_connections() {
    let (meter, _window) = meter(Rates {
        per_second: 1 << 20,
        per_principal: 0,
    });
    let span = 10 * SECOND;
    let one = within(span, stream(&meter, "a"));
    let seven = join_all((0..7).map(|_| within(span, stream(&meter, "b"))));
    let (one, seven) = none_waits_after(&meter, join(one, seven)).await;
    let seven: u64 = seven.iter().sum();
    // Who came first had the burst.
    assert!(one.abs_diff(seven) < 2 * 104_857, "{one} and {seven}");
    assert!(one + seven > 10 * 1_000_000, "and the rate is used: {}", one + seven);
}

#[tokio::test(start_paused = true)]
async fn sixty_streams_drip() {
    let (meter, _window) = meter(Rates {
        per_second: 1 << 20,
        per_principal: 0,
    });
    let streams = (0..60).map(|n| send(stream(&meter, if n % 10 == 0 { "a" } else { "b" }), 1 << 18));
    for took in none_waits_after(&meter, join_all(streams)).await {
        assert!(took.unwrap() < 16 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_wait_leaves_nothing() {
    let (meter, _window) = meter(SLOW);
    let mut first = stream(&meter, "a");
    let mut second = stream(&meter, "a");
    assert_eq!(first.take(u64::MAX).await, Ok(6_553));
    let ms = Duration::from_millis;
    // Each drives, and goes while the other waits.
    assert!(
        join(timeout(ms(20), first.take(6_553)), timeout(ms(200), second.take(6_553)))
            .await
            .0
            .is_err()
    );
    assert!(
        join(timeout(ms(200), first.take(6_553)), timeout(ms(20), second.take(6_553)))
            .await
            .1
            .is_err()
    );
    assert_eq!(meter.snapshot().waiting, 0);
    drop(first);
    assert_eq!(none_waits_after(&meter, second.take(10_000)).await, Ok(6_553));
    assert_eq!(meter.snapshot().granted_bytes, 4 * 6_553);
}

#[tokio::test(start_paused = true)]
async fn the_timer_follows_who_waits() {
    let (meter, _window) = meter(Rates {
        per_second: 131_072,
        per_principal: 65_536,
    });
    for name in ["c", "d"] {
        meter.register(&PrincipalId::new(name)).unwrap();
    }
    let [mut a, mut b, mut c, mut d] = ["a", "b", "c", "d"].map(|name| stream(&meter, name));
    assert_eq!(join(a.take(6_553), b.take(6_553)).await, (Ok(6_553), Ok(6_553)));
    let began = Instant::now();
    let timed = async |take: &mut StreamBudget, want| {
        take.take(want).await.unwrap();
        began.elapsed().as_millis()
    };
    // The first drives and sleeps until its own bucket is full. The others wait for the common one, the last of them
    // behind one that gives up.
    let gives_up = timeout(Duration::from_millis(10), c.take(6_553));
    let (first, (gone, last)) = join(timed(&mut a, 6_553), join(gives_up, timed(&mut d, 100))).await;
    assert!(gone.is_err());
    assert!((10..15).contains(&last), "{last} ms");
    assert!((99..105).contains(&first), "{first} ms");

    let began = Instant::now();
    assert_eq!(meter.snapshot().waiting, 0);
    b.take(6_553).await.unwrap();
    let sooner = async {
        c.take(6_553).await.unwrap();
        began.elapsed().as_millis()
    };
    let (_, sooner) = join(a.take(6_553), sooner).await;
    assert!((45..55).contains(&sooner), "{sooner} ms");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_polled_does_not_stop_the_others() {
    let (meter, _window) = meter(SLOW);
    let mut lying = stream(&meter, "a");
    lying.take(6_553).await.unwrap();
    let mut lying = pin!(lying.take(6_553));
    assert!(lying.as_mut().now_or_never().is_none(), "it has the baton now");
    let others = send(stream(&meter, "b"), 3 * 6_553);
    assert!(timeout(2 * SECOND, others).await.unwrap().is_ok());
    assert_eq!(lying.now_or_never(), Some(Ok(6_553)));
}

#[tokio::test(start_paused = true)]
async fn lost_trust_rejects_all_who_wait_within_a_second() {
    let (meter, window) = meter(SLOW);
    let mut running = stream(&meter, "a");
    running.take(6_553).await.unwrap();
    let mut streams: Vec<StreamBudget> = (0..256).map(|_| stream(&meter, "a")).collect();
    let mut more = stream(&meter, "b");
    let waiting = join_all(streams.iter_mut().map(|stream| stream.take(6_553)));
    let losing = async {
        tokio::task::yield_now().await;
        assert_eq!(meter.snapshot().waiting, 256);
        assert_eq!(more.take(1).await, Err(Error::Busy));
        assert_eq!(running.take(1).now_or_never(), None, "never refused a place");
        window.close();
        Instant::now()
    };
    let (results, lost) = join(waiting, losing).await;
    assert!(lost.elapsed() < SECOND);
    assert_eq!(results, vec![Err(Error::Unavailable); 256]);
    assert_eq!(meter.snapshot().waiting, 0);
    assert_eq!(meter.snapshot().granted_bytes, 6_553);

    assert_eq!(more.take(1).await, Err(Error::Unavailable));
    assert_eq!(more.take(0).await, Err(Error::Unavailable));
    assert_eq!(more.check(), Err(Error::Unavailable));
    assert!(meter.stream(&PrincipalId::new("a")).is_err());
}

#[tokio::test(start_paused = true)]
async fn lost_trust_is_seen_behind_one_that_is_not_polled() {
    let (meter, window) = meter(SLOW);
    let mut lying = stream(&meter, "a");
    lying.take(6_553).await.unwrap();
    let mut lying = pin!(lying.take(6_553));
    assert!(lying.as_mut().now_or_never().is_none());
    window.close();
    let mut waits = pin!(meter.0.take(
        meter.0.lock().governor.account(&PrincipalId::new("b")).unwrap(),
        1,
        Standing::New
    ));
    assert_eq!(timeout(SECOND, waits.as_mut()).await, Ok(Err(Error::Unavailable)));
    assert_eq!(lying.now_or_never(), Some(Err(Error::Unavailable)));
}

#[tokio::test(start_paused = true)]
async fn closing_rejects_at_once() {
    let (meter, _window) = meter(SLOW);
    let mut waits = stream(&meter, "a");
    waits.take(6_553).await.unwrap();
    let began = Instant::now();
    let close = async { meter.close() };
    assert_eq!(join(waits.take(6_553), close).await.0, Err(Error::Unavailable));
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(waits.take(1).await, Err(Error::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn unlimited_is_counted_and_needs_trust_too() {
    let (meter, window) = meter(Rates::default());
    let mut stream = stream(&meter, "a");
    assert_eq!(stream.take(u64::MAX).await, Ok(1 << 20));
    assert_eq!(stream.take(10).await, Ok(10));
    assert_eq!(meter.snapshot().granted_bytes, (1 << 20) + 10);
    assert_eq!(stream.check(), Ok(()));
    window.close();
    assert_eq!(stream.check(), Err(Error::Unavailable));
    assert_eq!(stream.take(10).await, Err(Error::Unavailable));
    assert_eq!(meter.snapshot().granted_bytes, (1 << 20) + 10);
}

#[tokio::test(start_paused = true)]
async fn only_registered_principals() {
    let (meter, _window) = meter(SLOW);
    assert_eq!(
        meter.stream(&PrincipalId::new("nobody")).err(),
        Some(Error::UnknownPrincipal)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_threads_and_the_real_clock() {
    let rates = Rates {
        per_second: 32 << 20,
        per_principal: 24 << 20,
    };
    let clock = Arc::new(SystemClock);
    let began = clock.now();
    let (meter, _window) = metered_by(clock.clone(), rates);
    let mut streams = JoinSet::new();
    for n in 0..16 {
        let stream = stream(&meter, if n == 0 { "a" } else { "b" });
        streams.spawn(async move { within(Duration::from_millis(400), stream).await });
    }
    let sent: u64 = none_waits_after(&meter, streams.join_all()).await.iter().sum();
    let granted = meter.snapshot().granted_bytes;
    let brought = u128::from(rates.per_second) * clock.now().since(began).as_nanos() / 1_000_000_000;
    assert!(sent <= granted);
    assert!(u128::from(granted) <= u128::from(rates.burst()) + brought);
    assert!(granted > 1 << 22, "it flows: {granted}");
}
