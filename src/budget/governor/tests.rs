use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::model::failure::{Classify, Kind};

const START: Duration = Duration::from_secs(1_000);
const SLOW: Rates = Rates {
    per_second: 65_536,
    per_principal: 0,
};

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A governor at a virtual clock, whose waiters are known by a number.
struct Bench {
    governor: Governor<usize>,
    rates: Rates,
    now: Duration,
    /// When, charged to whom, how much.
    grants: Vec<(Duration, Account, u64)>,
}

impl Bench {
    fn new(rates: Rates) -> Self {
        Self {
            governor: Governor::new(rates, 256, START),
            rates,
            now: START,
            grants: Vec::new(),
        }
    }

    fn account(&mut self, name: &str) -> Account {
        self.governor.register(&PrincipalId::new(name), START).unwrap()
    }

    fn grab(&mut self, account: Account, want: u64) -> Option<u64> {
        let bytes = self.governor.grab(account, want, self.now).unwrap()?;
        self.grants.push((self.now, account, bytes));
        Some(bytes)
    }

    fn wait(&mut self, account: Account, want: u64, number: usize) -> Ticket {
        self.governor
            .wait(account, want, Standing::New, number, self.now)
            .unwrap()
    }

    /// Hands out what is due to streams of `accounts`.
    fn serve(&mut self, accounts: &[Account]) -> Vec<(usize, u64)> {
        let mut served = Vec::new();
        while let Some(grant) = self.governor.next(self.now) {
            self.grants.push((self.now, accounts[grant.reply], grant.bytes));
            served.push((grant.reply, grant.bytes));
        }
        served
    }

    /// Sleeps as the governor says and serves, until nobody waits.
    fn drain(&mut self, accounts: &[Account]) -> Vec<(usize, u64)> {
        let mut served = self.serve(accounts);
        while let Some(delay) = self.governor.delay(self.now) {
            self.now += delay;
            served.extend(self.serve(accounts));
        }
        served
    }

    /// Over every window of time: granted <= burst + rate * window.
    fn assert_bounds(&self) {
        let of_all = self.grants.iter().map(|&(at, _, bytes)| (at, bytes));
        assert_bound(self.rates.per_second, self.rates.burst(), of_all);
        let accounts: BTreeSet<Account> = self.grants.iter().map(|grant| grant.1).collect();
        for account in accounts {
            let own = self.grants.iter().filter(|grant| grant.1 == account);
            assert_bound(
                self.rates.per_principal,
                self.rates.principal_burst(),
                own.map(|&(at, _, bytes)| (at, bytes)),
            );
        }
    }
}

/// The worst window that ends with a grant either begins with it or is the worst that ended with the one before.
fn assert_bound(rate: u64, burst: u64, grants: impl Iterator<Item = (Duration, u64)>) {
    let mut last = START;
    let mut worst = 0;
    for (at, bytes) in grants {
        worst = u128::saturating_sub(worst, at.saturating_sub(last).as_nanos() * u128::from(rate))
            + u128::from(bytes) * 1_000_000_000;
        last = at;
        assert!(
            rate == 0 || worst <= u128::from(burst) * 1_000_000_000,
            "{} bytes over {rate}/s and {burst}, {:?} after the start",
            worst / 1_000_000_000 - u128::from(burst),
            at.saturating_sub(START)
        );
    }
}

#[test]
fn two_principals_with_sixty_waiting_quanta() {
    let mut bench = Bench::new(Rates {
        per_second: 131_072,
        per_principal: 65_536,
    });
    let (a, b) = (bench.account("a"), bench.account("b"));
    let accounts: Vec<Account> = (0..60).map(|n| if n % 3 == 0 { a } else { b }).collect();
    let mut wanted = vec![6_553; 60];
    for (number, &account) in accounts.iter().enumerate() {
        bench.wait(account, 6_553, number);
    }
    for tick in 0..200 {
        bench.now = START + millis(100 * tick);
        for (number, bytes) in bench.serve(&accounts) {
            wanted[number] -= bytes;
            if wanted[number] > 0 {
                bench.wait(accounts[number], wanted[number], number);
            }
        }
        for account in [a, b] {
            let granted: u64 = bench.grants.iter().filter(|g| g.1 == account).map(|g| g.2).sum();
            assert!(granted <= 6_553 + 65_536 * tick / 10);
        }
        assert!(bench.governor.granted() <= 13_107 + 131_072 * tick / 10);
    }
    assert_eq!(bench.governor.granted(), 60 * 6_553, "all served");
    assert_eq!(bench.governor.delay(bench.now), None, "no timer left");
    bench.assert_bounds();
}

#[test]
fn principals_take_turns() {
    let mut bench = Bench::new(SLOW);
    let (a, b, c) = (bench.account("a"), bench.account("b"), bench.account("c"));
    assert_eq!(bench.grab(a, 6_553), Some(6_553));
    let accounts = [a, a, a, a, a, b, c];
    for (number, &account) in accounts.iter().enumerate() {
        assert_eq!(bench.grab(account, 6_553), None);
        bench.wait(account, 6_553, number);
    }
    let order: Vec<usize> = bench.drain(&accounts).iter().map(|served| served.0).collect();
    assert_eq!(order, [0, 5, 6, 1, 2, 3, 4]);
    bench.assert_bounds();
}

#[test]
fn reconnecting_refills_nothing() {
    let mut bench = Bench::new(Rates {
        per_second: 0,
        per_principal: 65_536,
    });
    let (a, b) = (bench.account("a"), bench.account("b"));
    assert_eq!(bench.grab(a, 1 << 20), Some(6_553));
    assert_eq!(bench.account("a"), a, "registered again");
    assert_eq!(bench.grab(a, 1 << 20), None);
    bench.wait(a, 1 << 20, 0);
    assert_eq!(bench.grab(b, 1 << 20), Some(6_553), "another is served at once");
    assert_eq!(bench.drain(&[a]), [(0, 6_553)]);
    assert_eq!(bench.now, START + millis(100));
    bench.assert_bounds();
}

#[test]
fn tiny_requests_do_not_delay_a_full_quantum() {
    let mut bench = Bench::new(SLOW);
    let mut accounts = vec![bench.account("large")];
    assert_eq!(bench.grab(accounts[0], 6_553), Some(6_553));
    bench.wait(accounts[0], 6_553, 0);
    for number in 1..=100 {
        accounts.push(bench.account(&format!("tiny-{number}")));
        bench.now += Duration::from_micros(900);
        assert_eq!(bench.grab(accounts[number], 1), None);
        bench.wait(accounts[number], 1, number);
        assert_eq!(bench.governor.next(bench.now).map(|grant| grant.reply), None);
    }
    assert_eq!(bench.governor.delay(bench.now), Some(millis(10)));
    bench.now = START + millis(100);
    assert_eq!(bench.serve(&accounts), [(0, 6_553)]);
    assert_eq!(bench.drain(&accounts).len(), 100);
    bench.assert_bounds();
}

#[test]
fn who_waits_for_his_own_bucket_is_passed() {
    let mut bench = Bench::new(Rates {
        per_second: 1 << 20,
        per_principal: 65_536,
    });
    let (a, b) = (bench.account("a"), bench.account("b"));
    assert_eq!(bench.grab(a, 6_553), Some(6_553));
    bench.wait(a, 6_553, 0);
    bench.wait(b, 6_553, 1);
    assert_eq!(bench.serve(&[a, b]), [(1, 6_553)]);
    assert_eq!(bench.drain(&[a, b]), [(0, 6_553)]);
    bench.assert_bounds();
}

#[test]
fn a_cancelled_wait_is_gone_and_its_grant_stays_spent() {
    let mut bench = Bench::new(SLOW);
    let a = bench.account("a");
    bench.grab(a, 6_553);
    let ticket = bench.wait(a, 6_553, 0);
    assert!(bench.governor.cancel(ticket, bench.now));
    assert!(!bench.governor.cancel(ticket, bench.now));
    assert_eq!((bench.governor.waiting(), bench.governor.delay(bench.now)), (0, None));

    let ticket = bench.wait(a, 6_553, 0);
    bench.drain(&[a]);
    assert!(!bench.governor.cancel(ticket, bench.now));
    assert_eq!(bench.governor.granted(), 2 * 6_553);
    assert_eq!(bench.grab(a, 100), None);
}

#[test]
fn places_are_for_new_streams() {
    let mut bench = Bench::new(SLOW);
    let a = bench.account("a");
    bench.grab(a, 6_553);
    let mut tickets: Vec<Ticket> = (0..256).map(|number| bench.wait(a, 6_553, number)).collect();
    let mut wait = |standing| bench.governor.wait(a, 6_553, standing, 256, START);
    assert_eq!(wait(Standing::New), Err(Error::Busy));
    assert!(wait(Standing::Running).is_ok(), "a running response is never refused");
    assert_eq!(wait(Standing::New), Err(Error::Busy));
    for ticket in tickets.drain(..2) {
        bench.governor.cancel(ticket, START);
    }
    bench.wait(a, 6_553, 0);
    assert_eq!(bench.governor.waiting(), 256);
}

#[test]
fn closed_for_ever() {
    let mut bench = Bench::new(SLOW);
    let a = bench.account("a");
    bench.grab(a, 6_553);
    let ticket = bench.wait(a, 1, 0);
    for number in 1..256 {
        bench.wait(a, 1, number);
    }
    assert_eq!(bench.governor.close().len(), 256);
    bench.now += Duration::from_hours(1);
    assert_eq!(bench.governor.grab(a, 1, bench.now), Err(Error::Unavailable));
    let again = bench.governor.wait(a, 1, Standing::Running, 0, bench.now);
    assert_eq!(again, Err(Error::Unavailable));
    assert!(!bench.governor.cancel(ticket, bench.now));
    assert!(bench.governor.next(bench.now).is_none());
    assert_eq!((bench.governor.waiting(), bench.governor.delay(bench.now)), (0, None));
    assert_eq!(bench.governor.granted(), 6_553);
}

#[test]
fn the_table_of_principals_is_bounded() {
    let mut bench = Bench::new(SLOW);
    for class in ["", "user:", "service:"] {
        for n in 0..1_000 {
            bench.account(&format!("{class}{n}"));
        }
        let more = PrincipalId::new(format!("{class}more"));
        let refused = bench.governor.register(&more, START).unwrap_err();
        assert_eq!(refused.kind(), Kind::CapacityExceeded);
        assert_eq!(refused.reason(), Some("transfer_limit"));
        assert_eq!(bench.governor.account(&more).unwrap_err().kind(), Kind::Forbidden);
        bench.account(&format!("{class}0"));
    }
}

/// One principal with many streams, many with one: nobody hears nothing for a second.
#[test]
fn a_crowd_drips() {
    let mut bench = Bench::new(Rates {
        per_second: 1 << 24,
        per_principal: 1 << 23,
    });
    let many = bench.account("many");
    let mut accounts = vec![many; 100];
    accounts.extend((0..100).map(|n| bench.account(&n.to_string())));
    let mut heard = vec![START; accounts.len()];
    for (number, &account) in accounts.iter().enumerate() {
        bench.wait(account, 1 << 20, number);
    }
    while bench.now < START + millis(5_000) {
        for (number, _) in bench.serve(&accounts) {
            assert!(bench.now < heard[number] + millis(900), "{number} waited too long");
            heard[number] = bench.now;
            bench.wait(accounts[number], 1 << 20, number);
        }
        bench.now += bench.governor.delay(bench.now).unwrap() + millis(1);
    }
    assert!(heard.iter().all(|&at| bench.now < at + millis(900)));
    bench.assert_bounds();
    assert!(bench.governor.granted() > 99 * (5 << 24) / 100, "and the rate is used");
}

/// A stream of a random scenario.
#[derive(Clone, Debug)]
struct Stream {
    principal: usize,
    begins: Duration,
    quanta: u64,
    pause: Duration,
    cancels: Option<Duration>,
}

fn stream() -> impl Strategy<Value = Stream> {
    let span = |most: u64| (0..most).prop_map(Duration::from_micros);
    (
        0_usize..4,
        span(2_000_000),
        0_u64..40,
        span(60_000),
        prop::option::weighted(0.3, span(2_000_000)),
    )
        .prop_map(|(principal, begins, quarters, pause, cancels)| Stream {
            principal,
            begins: START + begins,
            quanta: quarters,
            pause,
            cancels: cancels.map(|after| START + begins + after),
        })
}

fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 1 => 10_u64..1_000, 4 => 65_536_u64..1 << 28]
}

/// What a stream does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Cancel(usize),
}

proptest! {
    #[test]
    fn never_too_much_and_everybody_is_served(
        per_second in rate(),
        per_principal in rate(),
        streams in prop::collection::vec(stream(), 1..24),
        late in prop::collection::vec(0_u64..5_000_000, 1..8),
    ) {
        let rates = Rates { per_second, per_principal };
        let mut bench = Bench::new(rates);
        let principals: Vec<Account> = (0..4).map(|n| bench.account(&n.to_string())).collect();
        let accounts: Vec<Account> = streams.iter().map(|stream| principals[stream.principal]).collect();
        // Quarters of quanta, so that requests of all sizes meet.
        let wanted = |stream: &Stream| stream.quanta * rates.quantum().div_ceil(4);
        let mut left: Vec<u64> = streams.iter().map(wanted).collect();
        let mut waits: HashMap<usize, Ticket> = HashMap::new();
        let mut events = BTreeSet::new();
        for (number, stream) in streams.iter().enumerate() {
            events.insert((stream.begins, Event::Ask(number)));
            events.extend(stream.cancels.map(|at| (at, Event::Cancel(number))));
        }
        let mut late = late.iter().cycle();
        loop {
            // What is due was served, so this is what happens next.
            let timer = bench.governor.delay(bench.now).map(|delay| bench.now + delay + Duration::from_nanos(*late.next().unwrap()));
            let event = events.first().map(|&(at, _)| at);
            let Some(next) = timer.into_iter().chain(event).min() else { break };
            bench.now = next;
            // The timer first, then what comes at the same moment, one by one.
            let mut granted = bench.serve(&accounts);
            if granted.is_empty() && event == Some(next) {
                match events.pop_first() {
                    Some((_, Event::Ask(number))) if left[number] > 0 => match bench.grab(accounts[number], left[number]) {
                        Some(bytes) => granted.push((number, bytes)),
                        None => drop(waits.insert(number, bench.wait(accounts[number], left[number], number))),
                    },
                    Some((_, Event::Cancel(number))) => {
                        left[number] = 0;
                        if let Some(ticket) = waits.remove(&number) {
                            prop_assert!(bench.governor.cancel(ticket, bench.now));
                        }
                    }
                    _ => {}
                }
                granted.extend(bench.serve(&accounts));
            }
            for (number, bytes) in granted {
                waits.remove(&number);
                prop_assert!(bytes > 0 && bytes <= rates.quantum());
                left[number] -= bytes;
                events.insert((bench.now + streams[number].pause, Event::Ask(number)));
            }
            prop_assert_eq!(bench.governor.waiting(), waits.len());
        }
        prop_assert!(left.iter().all(|&left| left == 0), "all served");
        let granted: u64 = bench.grants.iter().map(|grant| grant.2).sum();
        prop_assert_eq!(granted, bench.governor.granted());
        let whole: u64 = streams.iter().filter(|stream| stream.cancels.is_none()).map(wanted).sum();
        prop_assert!(whole <= granted && granted <= streams.iter().map(wanted).sum());
        bench.assert_bounds();
    }
}
