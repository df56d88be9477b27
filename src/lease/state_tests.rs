//! Cases 9.1 of docs/spec/cases.md, the waiting rules, and random schedules.

use proptest::prelude::*;

use super::*;
use crate::catalog::slots::Instance;
use crate::clock::{Clock, TestClock};

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn slot(number: u8) -> Slot {
    Slot::new(number).unwrap()
}

fn grant() -> Grant {
    Grant {
        slot: slot(1),
        instance: Instance::random(),
        generation: 1,
    }
}

fn reserved(expiry: &str, remaining: u64) -> Event {
    Event::Reserved(Reservation {
        slot: slot(1),
        expiry: expiry.to_owned(),
        remaining: millis(remaining),
    })
}

/// A machine with a clock: times are milliseconds since the first attempt began.
struct Bench {
    machine: Machine,
    start: Moment,
    now: Moment,
}

impl Bench {
    fn new(wanted: Wanted) -> Self {
        let start = TestClock::default().now();
        let mut bench = Self {
            machine: Machine::new(wanted, Timings::default()),
            start,
            now: start,
        };
        assert_eq!(
            bench.tick(0),
            Effect::Acquire {
                deadline: millis(8_000)
            }
        );
        bench
    }

    fn fixed() -> Self {
        Self::new(Wanted::Fixed(slot(1)))
    }

    /// Active since 0, with the first renewal due at 2000.
    fn active() -> Self {
        let mut bench = Self::fixed();
        assert!(matches!(bench.granted(0, 0), Effect::Activated(_)));
        assert_eq!(bench.tick(0), bench.until(2_000));
        bench
    }

    fn at(&self, time: u64) -> Moment {
        self.start.after(millis(time))
    }

    fn until(&self, time: u64) -> Effect {
        Effect::SleepUntil(self.at(time).monotonic)
    }

    fn event(&mut self, event: Event, time: u64) -> Effect {
        self.now = self.at(time);
        self.machine.handle(event, self.now)
    }

    fn tick(&mut self, time: u64) -> Effect {
        self.event(Event::Tick, time)
    }

    fn granted(&mut self, began: u64, time: u64) -> Effect {
        let began = self.at(began);
        self.event(Event::Granted { began, grant: grant() }, time)
    }

    fn renewed(&mut self, began: u64, time: u64) -> Effect {
        let began = self.at(began);
        self.event(Event::Renewed { began }, time)
    }

    fn window(&self) -> Arc<Window> {
        Arc::clone(self.machine.window().unwrap())
    }
}

const RENEW: Effect = Effect::Renew {
    deadline: Duration::from_secs(1),
};

#[test]
fn an_answer_counts_from_the_beginning_of_its_request() {
    let mut bench = Bench::fixed();
    assert!(matches!(bench.granted(0, 7_000), Effect::Activated(_)));
    let window = bench.window();
    assert!(window.is_open(bench.at(7_999)));
    assert_eq!(bench.tick(8_000), Effect::Lost(Cause::WindowClosed));
    // Neither an ordinary nor an "initial" acceptance revives it.
    assert_eq!(bench.renewed(8_000, 8_001), Effect::Lost(Cause::WindowClosed));
    assert_eq!(bench.granted(8_000, 8_001), Effect::Lost(Cause::WindowClosed));
    assert!(!window.is_open(bench.at(0)));
}

#[test]
fn a_heartbeat_answered_at_the_deadline_is_dead() {
    let mut bench = Bench::active();
    let window = bench.window();
    assert_eq!(bench.tick(2_000), RENEW);
    assert_eq!(bench.renewed(2_000, 8_000), Effect::Lost(Cause::WindowClosed));
    assert!(!window.is_open(bench.at(8_000)));
}

#[test]
fn a_sleeping_host_loses_its_lease() {
    let mut bench = Bench::active();
    let window = bench.window();
    let woken = Moment {
        wall: bench.start.wall + millis(9_000),
        ..bench.start
    };
    assert_eq!(
        bench.machine.handle(Event::Tick, woken),
        Effect::Lost(Cause::WindowClosed)
    );
    assert!(!window.is_open(bench.at(1)), "turning the clock back revives nothing");
    assert_eq!(bench.tick(1), Effect::Lost(Cause::WindowClosed));
}

#[test]
fn dead_at_birth() {
    let mut bench = Bench::fixed();
    assert_eq!(bench.granted(0, 9_000), Effect::Fail(Failure::TooLate));
    assert_eq!(bench.tick(9_001), Effect::Fail(Failure::TooLate));
}

#[test]
fn renewed_two_seconds_after_the_last_success() {
    let mut bench = Bench::active();
    assert_eq!(bench.tick(1_999), bench.until(2_000));
    assert_eq!(bench.tick(2_000), RENEW);
    assert_eq!(bench.renewed(2_000, 2_300), bench.until(4_300));
    let window = bench.window();
    assert!(window.is_open(bench.at(9_999)));
    assert!(!window.is_open(bench.at(10_000)));
}

#[test]
fn never_two_attempts_at_once() {
    let mut bench = Bench::active();
    assert_eq!(bench.tick(2_000), RENEW);
    assert_eq!(bench.tick(2_500), bench.until(3_000));
    assert_eq!(bench.event(Event::Failed, 3_000), bench.until(3_250));
    assert_eq!(bench.tick(3_250), RENEW);
}

#[test]
fn failed_renewals_go_on_while_the_window_is_open() {
    let mut bench = Bench::active();
    let window = bench.window();
    for began in [2_000, 3_250, 4_500, 5_750] {
        assert_eq!(bench.tick(began), RENEW);
        assert_eq!(bench.event(Event::Failed, began + 1_000), bench.until(began + 1_250));
    }
    // The last attempt may not outlive the window.
    assert_eq!(bench.tick(7_500), Effect::Renew { deadline: millis(500) });
    assert_eq!(bench.event(Event::Failed, 8_000), Effect::Lost(Cause::WindowClosed));
    assert!(!window.is_open(bench.at(8_000)));
}

#[test]
fn a_renewal_without_a_row_is_the_end() {
    let mut bench = Bench::active();
    let window = bench.window();
    bench.tick(2_000);
    assert_eq!(bench.event(Event::Gone, 2_010), Effect::Lost(Cause::LeaseGone));
    assert!(!window.is_open(bench.at(2_010)));
}

#[test]
fn a_left_over_reservation_is_waited_for() {
    let mut bench = Bench::fixed();
    assert_eq!(bench.event(reserved("a", 2_400), 10), bench.until(1_010));
    assert!(matches!(bench.tick(1_010), Effect::Acquire { .. }));
    assert_eq!(bench.event(reserved("a", 1_390), 1_020), bench.until(2_020));
    assert!(matches!(bench.tick(2_020), Effect::Acquire { .. }));
    assert_eq!(bench.event(reserved("a", 380), 2_030), bench.until(2_460));
    assert!(matches!(bench.tick(2_460), Effect::Acquire { .. }));
    assert!(matches!(bench.granted(2_460, 2_470), Effect::Activated(_)));
    assert_eq!(bench.tick(2_470), bench.until(4_470));
}

#[test]
fn a_slot_that_somebody_renews_is_held() {
    let mut bench = Bench::fixed();
    bench.event(reserved("a", 9_000), 10);
    bench.tick(1_010);
    assert_eq!(
        bench.event(reserved("b", 9_900), 1_020),
        Effect::Fail(Failure::Held(slot(1)))
    );
}

#[test]
fn no_start_waits_for_more_than_fifteen_seconds() {
    for (wanted, failure) in [
        (Wanted::Fixed(slot(1)), Failure::Reserved(slot(1))),
        (Wanted::Auto, Failure::AllTaken),
    ] {
        let mut bench = Bench::new(wanted);
        for second in 0..14 {
            let time = second * 1_000 + 10;
            assert_eq!(bench.event(reserved("a", 60_000), time), bench.until(time + 1_000));
            assert!(matches!(bench.tick(time + 1_000), Effect::Acquire { .. }));
        }
        assert_eq!(bench.event(reserved("a", 60_000), 14_010), Effect::Fail(failure));
    }
}

#[test]
fn an_auto_reader_does_not_mind_that_others_renew() {
    let mut bench = Bench::new(Wanted::Auto);
    assert_eq!(bench.event(reserved("a", 9_000), 10), bench.until(1_010));
    bench.tick(1_010);
    assert_eq!(bench.event(reserved("b", 400), 1_020), bench.until(1_470));
}

#[test]
fn other_errors_stop_a_start_at_once() {
    let mut bench = Bench::fixed();
    assert_eq!(bench.event(Event::Failed, 10), Effect::Fail(Failure::Attempt));
}

#[test]
fn an_outcome_that_nobody_asked_for_changes_nothing() {
    let mut bench = Bench::active();
    assert_eq!(bench.event(Event::Gone, 10), bench.until(2_000));
    assert_eq!(bench.renewed(10, 20), bench.until(2_000));
    assert!(!bench.window().is_open(bench.at(8_000)));
}

/// One attempt of a random schedule.
#[derive(Clone, Debug)]
struct Attempt {
    took: u64,
    outcome: Outcome,
    /// The wall clock is moved by this before the answer arrives.
    jump: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Good,
    Bad,
    Gone,
}

fn attempts() -> impl Strategy<Value = Vec<Attempt>> {
    let outcome = prop_oneof![8 => Just(Outcome::Good), 6 => Just(Outcome::Bad), 1 => Just(Outcome::Gone)];
    let took = prop_oneof![6 => 0..1_000_u64, 1 => 1_000..12_000_u64];
    let jump = prop_oneof![12 => Just(0_i64), 1 => -20_000..20_000_i64];
    let attempt = (took, outcome, jump).prop_map(|(took, outcome, jump)| Attempt { took, outcome, jump });
    prop::collection::vec(attempt, 1..40)
}

fn shifted(moment: Moment, wall: i64) -> Moment {
    let span = millis(wall.unsigned_abs());
    Moment {
        wall: if wall < 0 {
            moment.wall.saturating_sub(span)
        } else {
            moment.wall + span
        },
        ..moment
    }
}

proptest! {
    /// Whatever the schedule: open only below both deadlines of the last good answer, no attempt before the last one
    /// has ended, and pauses as ruled.
    #[test]
    fn random_schedules(attempts in attempts(), ticks in 1..7_u64) {
        let mut now = TestClock::default().now();
        let mut machine = Machine::new(Wanted::Fixed(slot(1)), Timings::default());
        let mut event = Event::Tick;
        let mut window: Option<Arc<Window>> = None;
        let mut last_good: Option<Moment> = None;
        let mut was_closed = false;
        let mut earliest = Duration::ZERO;
        let mut schedule = attempts.into_iter();
        for _ in 0..1_000 {
            let effect = machine.handle(event, now);
            event = Event::Tick;
            window = window.or_else(|| machine.window().cloned());
            match effect {
                Effect::SleepUntil(until) => {
                    // Ticks in between are harmless.
                    let step = until.saturating_sub(now.monotonic) / u32::try_from(ticks).unwrap();
                    now = now.after(step.max(millis(1)));
                }
                Effect::Acquire { deadline } | Effect::Renew { deadline } => {
                    prop_assert!(now.monotonic >= earliest, "too early");
                    let Some(attempt) = schedule.next() else { break };
                    let began = now;
                    now = shifted(now.after(millis(attempt.took).min(deadline)), attempt.jump);
                    let renewal = matches!(effect, Effect::Renew { .. });
                    prop_assert!(matches!(machine.handle(Event::Tick, began), Effect::SleepUntil(_)), "a second one");
                    event = match attempt.outcome {
                        _ if millis(attempt.took) >= deadline => Event::Failed,
                        Outcome::Good if renewal => Event::Renewed { began },
                        Outcome::Good => Event::Granted { began, grant: grant() },
                        Outcome::Gone if renewal => Event::Gone,
                        Outcome::Bad | Outcome::Gone => Event::Failed,
                    };
                    let good = !matches!(event, Event::Failed | Event::Gone);
                    earliest = now.monotonic + millis(if good { 2_000 } else { 250 });
                    if good {
                        last_good = Some(began);
                    }
                }
                Effect::Activated(_) => {}
                Effect::Fail(_) | Effect::Lost(_) => break,
            }
            if let (Some(window), Some(began), Event::Tick) = (&window, last_good, &event) {
                let open = window.is_open(now);
                let deadline = began.after(millis(8_000));
                prop_assert!(!open || (now.monotonic < deadline.monotonic && now.wall < deadline.wall));
                prop_assert!(!(open && was_closed), "revived");
                was_closed |= !open;
            }
        }
        if let Some(window) = window {
            prop_assert!(!window.is_open(now.after(millis(8_000))));
        }
    }

    /// An outage of up to 4 s stops nothing, whenever it begins and however its attempts end; one that is longer than
    /// the window closes it within 8 s of the last good beginning.
    #[test]
    fn outages(begins in 0..9_000_u64, length in prop_oneof![0..=4_000_u64, Just(20_000_u64)], refused: bool, round in 0..200_u64) {
        let mut bench = Bench::active();
        let window = bench.window();
        let ends = begins + length;
        let mut time = 0;
        let mut effect = bench.tick(0);
        let mut good = 0;
        while time < 30_000 {
            match effect {
                Effect::SleepUntil(until) => {
                    time = u64::try_from(until.saturating_sub(bench.start.monotonic).as_millis()).unwrap();
                    effect = bench.tick(time);
                }
                Effect::Renew { deadline } => {
                    let began = time;
                    let answered = began + round;
                    let away = answered > begins && began < ends;
                    if away {
                        time += if refused { 1 } else { u64::try_from(deadline.as_millis()).unwrap() };
                        effect = bench.event(Event::Failed, time);
                    } else {
                        good = began;
                        time = answered;
                        effect = bench.renewed(began, time);
                    }
                }
                Effect::Lost(Cause::WindowClosed) => break,
                other => panic!("{other:?}"),
            }
        }
        if length <= 4_000 {
            prop_assert!(time >= 30_000, "lost at {time}");
        } else {
            prop_assert!(time <= good + 8_000, "lost at {time}, last good at {good}");
            prop_assert!(!window.is_open(bench.at(time)));
        }
    }
}
