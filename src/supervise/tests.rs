use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const VITAL: TaskKind = TaskKind::new("vital", OnEnd::Stop, AtStop::Abort);
const MINOR: TaskKind = TaskKind::new("minor", OnEnd::Log, AtStop::Abort);
const TIDY: TaskKind = TaskKind::new("tidy", OnEnd::Stop, AtStop::Wait);

fn tasks() -> Tasks {
    let (tasks, latch) = Tasks::new();
    latch.release();
    tasks
}

fn alive(tasks: &Tasks) -> usize {
    tasks.alive().iter().map(|(_, count)| count).sum()
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_vital_task_stops_the_process() {
    let tasks = tasks();
    tasks.spawn(VITAL, sleep(SECOND));
    assert_eq!(alive(&tasks), 1);
    assert_eq!(tasks.stopping().await, Stop::failed("a task ended"));
    assert!(tasks.lifecycle().is_draining());
    assert!(tasks.close(SECOND).await);
    assert_eq!(alive(&tasks), 0);
}

#[tokio::test(start_paused = true)]
async fn so_does_its_panic() {
    let tasks = tasks();
    tasks.spawn(VITAL, async { panic!("boom") });
    assert_eq!(tasks.stopping().await.exit_code, 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_minor_task_does_not() {
    let tasks = tasks();
    tasks.spawn(MINOR, async {});
    tasks.spawn(MINOR, async { panic!("boom") });
    sleep(SECOND).await;
    assert_eq!((tasks.order(), alive(&tasks)), (None, 0));
    assert_eq!(tasks.lifecycle().phase(), Phase::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_because_of_the_drain_is_no_failure() {
    let tasks = tasks();
    let soft = tasks.soft().clone();
    tasks.spawn(VITAL, async move { soft.cancelled().await });
    tasks.stop(Stop::asked("signal"));
    assert!(tasks.close(SECOND).await);
    assert_eq!(tasks.order(), Some(Stop::asked("signal")));
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_work_only() {
    let tasks = tasks();
    tasks.spawn(VITAL, pending());
    let _left = tasks.spawn_detached_work("request", sleep(5 * SECOND));
    tasks.stop(Stop::asked("signal"));
    let began = Instant::now();
    assert_eq!(tasks.drain(2 * SECOND).await, Drained::TimedOut);
    assert_eq!(tasks.drain(30 * SECOND).await, Drained::Settled);
    assert_eq!(began.elapsed(), 5 * SECOND);
    assert_eq!(alive(&tasks), 1);
    assert!(tasks.close(SECOND).await);
    assert_eq!(tasks.lifecycle().phase(), Phase::Stopped);
}

#[tokio::test(start_paused = true)]
async fn nothing_to_drain() {
    let tasks = tasks();
    assert_eq!(tasks.drain(Duration::ZERO).await, Drained::Settled);
}

#[tokio::test(start_paused = true)]
async fn a_loss_cuts_a_drain_short() {
    let tasks = tasks();
    let work = tasks.spawn_detached_work("request", pending::<()>());
    tasks.stop(Stop::asked("signal"));
    let began = Instant::now();
    let lose = async {
        sleep(SECOND).await;
        tasks.stop(Stop::lost("lease"));
    };
    let (drained, ()) = tokio::join!(tasks.drain(30 * SECOND), lose);
    assert_ne!(drained, Drained::TimedOut);
    assert_eq!(began.elapsed(), SECOND);
    assert_eq!(work.await, Err(WorkLost));
    assert_eq!(tasks.order(), Some(Stop::lost("lease")));
}

#[tokio::test(start_paused = true)]
async fn hastening_ends_work() {
    let tasks = tasks();
    drop(tasks.spawn_detached_work("request", pending::<()>()));
    let began = Instant::now();
    let (drained, ()) = tokio::join!(tasks.drain(30 * SECOND), async { tasks.hasten() });
    assert_ne!(drained, Drained::TimedOut);
    assert!(tasks.close(SECOND).await && began.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_without_its_caller() {
    let tasks = tasks();
    let (done, told) = tokio::sync::oneshot::channel();
    drop(tasks.spawn_detached_work("publish", async move {
        sleep(SECOND).await;
        done.send(7)
    }));
    assert_eq!(told.await, Ok(7));
    assert_eq!(tasks.spawn_detached_work("publish", async { 8 }).await, Ok(8));
    let lost = tasks.spawn_detached_work("publish", async { panic!("boom") });
    assert_eq!(lost.await, Err::<(), _>(WorkLost));
    assert_eq!(alive(&tasks), 0);
}

#[tokio::test(start_paused = true)]
async fn closing_gives_tidy_tasks_time_but_not_for_ever() {
    let tasks = tasks();
    let hard = tasks.hard().clone();
    tasks.spawn(TIDY, async move {
        hard.cancelled().await;
        sleep(SECOND).await;
    });
    tasks.spawn(VITAL, pending());
    let began = Instant::now();
    assert!(tasks.close(10 * SECOND).await);
    assert_eq!(began.elapsed(), SECOND);
    let stubborn = Tasks::new().0;
    stubborn.spawn(TIDY, pending());
    assert!(!stubborn.close(SECOND).await);
}
