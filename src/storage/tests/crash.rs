//! Every step may be the last (docs/spec/storage.md 7.2): each is made to fail in turn, with all after it as a killed
//! process would leave them, and once alone as a disk that fails for a moment.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::*;

/// Which steps fail.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// None.
    Never,
    /// This one and all after it.
    From(usize),
    /// Only this one.
    At(usize),
}

type Walk = Vec<(Step, PathBuf)>;

/// The steps that were asked for since the faults were armed.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Option<Walk>>>);

impl Trace {
    fn arm(&self) {
        *self.0.lock().unwrap() = Some(Vec::new());
    }

    fn steps(&self) -> Walk {
        self.0.lock().unwrap().clone().unwrap_or_default()
    }
}

fn steps(fault: Fault) -> (Trace, Steps) {
    let trace = Trace::default();
    let seen = trace.clone();
    let steps = Steps::watched(move |step, path: &Path| {
        let mut seen = seen.0.lock().unwrap();
        let Some(seen) = seen.as_mut() else { return Ok(()) };
        seen.push((step, path.to_owned()));
        let number = seen.len() - 1;
        match fault {
            Fault::From(first) if number >= first => Err(io::Error::other("killed")),
            Fault::At(only) if number == only => Err(io::Error::other("failed")),
            _ => Ok(()),
        }
    });
    (trace, steps)
}

/// An open volume on which the faults begin now.
fn faulty(dir: &Path, fault: Fault) -> (Trace, Volume) {
    let (trace, steps) = steps(fault);
    let volume = Volume::open_for_writing_watched(dir, 0, false, steps).unwrap();
    trace.arm();
    (trace, volume)
}

/// Runs `work` without faults, to count its steps, and then once for each step and kind of fault.
fn each_fault(mut work: impl FnMut(Fault) -> Trace) {
    let count = work(Fault::Never).steps().len();
    assert!(count > 1, "the steps are asked for");
    for step in 0..count {
        work(Fault::From(step));
        work(Fault::At(step));
    }
}

/// Opens the directory anew, as the next process does.
fn reopen(dir: &Path) -> Volume {
    let volume = Volume::open_for_writing(dir, 0, false).unwrap();
    volume.sweep_staging().unwrap();
    assert!(below(&dir.join("staging")).is_empty());
    volume
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

#[test]
fn starting() {
    each_fault(|fault| {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        let (trace, steps) = steps(fault);
        trace.arm();
        let opened = Volume::open_for_writing_watched(&root, 0, false, steps);
        let seen = opened.as_ref().ok().map(Volume::identity);
        let volume = reopen(&root);
        assert!(seen.is_none_or(|id| id == volume.identity()), "{fault:?}");
        let others = below(&root)
            .into_iter()
            .filter(|path| !path.to_str().unwrap().contains(".probe-"));
        let wanted: Vec<_> = ["blobs", "parts", "staging", "storage-id"].map(PathBuf::from).into();
        assert_eq!(others.collect::<Vec<_>>(), wanted, "{fault:?}");
        trace
    });
}

#[test]
fn publishing() {
    let content = pattern((1 << 20) + 1000);
    each_fault(|fault| {
        let dir = tempfile::tempdir().unwrap();
        let (trace, volume) = faulty(dir.path(), fault);
        let id = ArtifactId::random();
        let acknowledged = run(publish(&volume, id, &content)).is_ok();
        cleaned_up(dir.path(), &trace, fault);
        check(dir.path(), id, &content, acknowledged, fault);
        trace
    });
}

#[test]
fn publishing_equal_bytes() {
    let content = pattern(10_000);
    each_fault(|fault| {
        let (dir, volume) = writer();
        let (one, two) = (ArtifactId::random(), ArtifactId::random());
        run(publish(&volume, one, &content)).unwrap();
        let (trace, volume) = faulty(dir.path(), fault);
        let share = async { sealed(&volume, two, &content).await?.publish_as(one).await };
        let acknowledged = run(share).is_ok();
        cleaned_up(dir.path(), &trace, fault);
        check(dir.path(), two, &content, acknowledged, fault);
        assert_eq!(run(read(&reopen(dir.path()), one, content.len())), content, "{fault:?}");
        trace
    });
}

/// A failure in a process that lives on leaves nothing half made behind, unless it was cleaning up that failed.
fn cleaned_up(dir: &Path, trace: &Trace, fault: Fault) {
    let Fault::At(number) = fault else { return };
    let (failed, _) = trace.steps()[number];
    if failed != Step::Unlink && failed != Step::RemoveDirectory {
        let left = |path: &PathBuf| {
            let text = path.to_str().unwrap();
            text.starts_with("staging/") || text.starts_with('.') || text.contains("/.")
        };
        let left: Vec<_> = below(dir).into_iter().filter(left).collect();
        assert!(left.is_empty(), "{left:?} after {fault:?}, {failed:?}");
    }
}

/// After a fault: the file is there whole or not at all, it is there if that was said, and it can be published again.
fn check(dir: &Path, id: ArtifactId, content: &[u8], acknowledged: bool, fault: Fault) {
    let volume = reopen(dir);
    let found = run(volume.recover(id)).unwrap();
    assert!(found.is_some() || !acknowledged, "lost: {fault:?}");
    if found.is_some() {
        assert_eq!(run(read(&volume, id, content.len())), content, "{fault:?}");
    }
    run(publish(&volume, id, content)).unwrap();
    assert_eq!(run(read(&volume, id, content.len())), content, "{fault:?}");
    assert!(below(&dir.join("staging")).is_empty());
}

#[test]
fn removing() {
    each_fault(|fault| {
        let (dir, volume) = writer();
        let id = ArtifactId::random();
        run(publish(&volume, id, b"bytes")).unwrap();
        let (trace, volume) = faulty(dir.path(), fault);
        let removed = run(volume.remove_blob(id)).ok();
        let volume = reopen(dir.path());
        let again = run(volume.remove_blob(id)).unwrap();
        match removed {
            Some(Removal::Removed) => assert_eq!(again, Removal::Absent, "{fault:?}"),
            Some(other) => panic!("{other:?} at {fault:?}"),
            None => {}
        }
        assert!(!dir.path().join("blobs").join(id.to_string()).exists());
        trace
    });
}

#[test]
fn bytes_before_name_before_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, volume) = faulty(dir.path(), Fault::Never);
    let id = ArtifactId::random();
    run(publish(&volume, id, &pattern(1_500_000))).unwrap();
    let (order, paths): (Vec<_>, Vec<_>) = trace.steps().into_iter().unzip();
    let wanted = [
        Step::MakeDirectory,
        Step::MakeFile,
        Step::Write,
        Step::Write,
        Step::SyncFile,
        Step::Link,
        Step::SyncDirectory,
        Step::Unlink,
        Step::RemoveDirectory,
    ];
    assert_eq!(order, wanted);
    let blobs = dir.path().join("blobs");
    assert_eq!(paths[4], paths[1], "what is synced is the file that was staged");
    assert_eq!(paths[5], blobs.join(id.to_string()));
    assert_eq!(paths[6], blobs, "and the directory with its final name");
}
