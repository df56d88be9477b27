//! The window of the ownership, docs/spec/leases.md 5.5, and random outages.

use proptest::prelude::*;

use super::*;
use crate::clock::{Clock, TestClock};

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A machine whose first probe began at 0, answered at once; times are milliseconds since then.
struct Bench {
    machine: Machine,
    start: Moment,
}

impl Bench {
    fn new() -> Self {
        let start = TestClock::default().now();
        Self {
            machine: Machine::held(Timings::default(), start, start).unwrap(),
            start,
        }
    }

    fn at(&self, time: u64) -> Moment {
        self.start.after(millis(time))
    }

    fn until(&self, time: u64) -> Effect {
        Effect::SleepUntil(self.at(time).monotonic)
    }

    fn event(&mut self, event: Event, time: u64) -> Effect {
        let now = self.at(time);
        self.machine.handle(event, now)
    }

    fn tick(&mut self, time: u64) -> Effect {
        self.event(Event::Tick, time)
    }

    fn open(&self, time: u64) -> bool {
        self.machine.window().is_open(self.at(time))
    }
}

const PROBE: Effect = Effect::Probe {
    deadline: Duration::from_secs(2),
};
const RETAKE: Effect = Effect::Retake {
    deadline: Duration::from_secs(1),
};

#[test]
fn probed_every_two_seconds() {
    let mut bench = Bench::new();
    assert_eq!(bench.tick(0), bench.until(2_000));
    assert_eq!(bench.tick(2_000), PROBE);
    let began = bench.at(2_000);
    assert_eq!(bench.event(Event::Probed { began }, 2_050), bench.until(4_000));
    assert!(bench.open(9_999));
    assert!(!bench.open(10_000));
}

#[test]
fn a_first_probe_that_is_too_slow_opens_nothing() {
    let start = TestClock::default().now();
    assert!(Machine::held(Timings::default(), start, start.after(millis(8_000))).is_err());
}

#[test]
fn a_broken_session_is_retaken_at_once_and_reads_go_on() {
    let mut bench = Bench::new();
    assert_eq!(bench.tick(700), bench.until(2_000));
    assert_eq!(bench.event(Event::Broken, 700), RETAKE);
    assert!(!bench.machine.is_held());
    assert!(bench.open(700));
    assert_eq!(bench.event(Event::Failed, 710), bench.until(960));
    assert_eq!(bench.tick(960), RETAKE);
    let began = bench.at(960);
    assert_eq!(bench.event(Event::Retaken { began }, 970), bench.until(2_960));
    assert!(bench.machine.is_held());
    assert!(bench.open(8_959));
}

#[test]
fn a_refused_lock_is_the_end_at_once() {
    let mut bench = Bench::new();
    bench.event(Event::Broken, 700);
    assert_eq!(bench.event(Event::Refused, 710), Effect::Lost(Cause::LockRefused));
    assert!(!bench.machine.is_held());
    assert!(!bench.open(710));
    let began = bench.at(700);
    assert_eq!(
        bench.event(Event::Retaken { began }, 720),
        Effect::Lost(Cause::LockRefused)
    );
}

#[test]
fn the_window_of_the_last_good_probe_is_the_limit() {
    let mut bench = Bench::new();
    assert_eq!(bench.tick(2_000), PROBE);
    assert_eq!(bench.event(Event::Broken, 4_000), RETAKE);
    for began in [4_000, 5_250, 6_500] {
        bench.tick(began);
        bench.event(Event::Failed, began + 1_000);
    }
    assert_eq!(bench.tick(7_750), Effect::Retake { deadline: millis(250) });
    assert_eq!(bench.event(Event::Failed, 8_000), Effect::Lost(Cause::WindowClosed));
}

#[test]
fn locks_that_come_back_too_late_are_worth_nothing() {
    let mut bench = Bench::new();
    bench.event(Event::Broken, 7_500);
    let began = bench.at(7_500);
    assert_eq!(
        bench.event(Event::Retaken { began }, 8_000),
        Effect::Lost(Cause::WindowClosed)
    );
    assert!(!bench.machine.is_held());
}

#[test]
fn a_sleeping_host_loses_the_storage() {
    let mut bench = Bench::new();
    let woken = Moment {
        wall: bench.start.wall + millis(9_000),
        ..bench.start
    };
    assert_eq!(
        bench.machine.handle(Event::Tick, woken),
        Effect::Lost(Cause::WindowClosed)
    );
    assert_eq!(bench.tick(1), Effect::Lost(Cause::WindowClosed));
}

#[test]
fn an_outcome_that_nobody_asked_for_changes_nothing() {
    let mut bench = Bench::new();
    let began = bench.at(500);
    assert_eq!(bench.event(Event::Probed { began }, 500), bench.until(2_000));
    assert_eq!(bench.event(Event::Refused, 500), bench.until(2_000));
    assert!(!bench.open(8_000));
}

proptest! {
    /// An outage of up to 4 s stops nothing; a longer one than the window closes it by 8 s. No two attempts overlap,
    /// and nothing is held during a retaking.
    #[test]
    fn outages(begins in 0..9_000_u64, length in prop_oneof![0..=4_000_u64, Just(20_000_u64)], refused: bool, round in 0..200_u64) {
        let mut bench = Bench::new();
        let ends = begins + length;
        let (mut time, mut good) = (0, 0);
        let mut effect = bench.tick(0);
        while time < 30_000 {
            match effect {
                Effect::SleepUntil(until) => {
                    let wake = u64::try_from(until.saturating_sub(bench.start.monotonic).as_millis()).unwrap();
                    prop_assert!(wake > time);
                    // A connection that the server ends is noticed while waiting; a frozen one is not.
                    if refused && bench.machine.is_held() && (time..wake).contains(&begins) {
                        time = begins + 1;
                        effect = bench.event(Event::Broken, time);
                    } else {
                        time = wake;
                        effect = bench.tick(time);
                    }
                }
                Effect::Probe { deadline } | Effect::Retake { deadline } => {
                    prop_assert!(matches!(bench.tick(time), Effect::SleepUntil(_)), "a second one");
                    let probe = matches!(effect, Effect::Probe { .. });
                    prop_assert_eq!(probe, bench.machine.is_held());
                    let began = bench.at(time);
                    if time + round > begins && time < ends {
                        time += if refused { 1 } else { u64::try_from(deadline.as_millis()).unwrap() };
                        effect = bench.event(if probe { Event::Broken } else { Event::Failed }, time);
                    } else {
                        good = time;
                        time += round;
                        effect = bench.event(if probe { Event::Probed { began } } else { Event::Retaken { began } }, time);
                    }
                    let open = bench.open(time);
                    prop_assert!(!open || time < good + 8_000);
                }
                Effect::Lost(Cause::WindowClosed) => break,
                Effect::Lost(cause) => panic!("{cause:?}"),
            }
        }
        if length <= 4_000 {
            prop_assert!(time >= 30_000, "lost at {time}");
        } else {
            prop_assert!(time <= good + 8_000, "lost at {time}, last good at {good}");
            prop_assert!(!bench.machine.is_held());
        }
    }
}
