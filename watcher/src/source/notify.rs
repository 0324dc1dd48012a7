//! Hints from the operating system's file events. The only user of the `notify` crate.

use std::path::Path;

use notify::{Config, EventKind, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher};

use super::poll::network_file_system;
use super::{Coverage, Hint, Source};

/// What the system says when there are too many.
const EMFILE: i32 = rustix::io::Errno::MFILE.raw_os_error();

/// One watch a directory, not recursive: artifacts of sessions need none, and watches are a limited good.
pub(crate) struct NotifySource {
    watcher: RecommendedWatcher,
}

impl NotifySource {
    /// Starts; `hear` gets the hints on a thread of the crate's.
    ///
    /// # Errors
    /// The system gives no events at all (too many watchers of this user): poll instead.
    pub(crate) fn start(hear: impl Fn(Hint) + Send + 'static) -> Result<Self, String> {
        let hear = move |event: notify::Result<notify::Event>| match event {
            Ok(event) => hints(event).into_iter().for_each(&hear),
            Err(error) => {
                tracing::debug!(%error, "file events were lost");
                hear(Hint::Everything);
            }
        };
        // Not when something is opened: our own looks at directories would wake us.
        let config = Config::default().with_event_kinds(EventKindMask::CORE);
        let watcher = RecommendedWatcher::new(hear, config).map_err(|error| reason(&error))?;
        Ok(Self { watcher })
    }
}

impl Source for NotifySource {
    fn watch(&mut self, dir: &Path) -> Coverage {
        if let Some(name) = network_file_system(dir) {
            return Coverage::Polling(format!("a network file system ({name}) gives no events of other machines"));
        }
        match self.watcher.watch(dir, RecursiveMode::NonRecursive) {
            Ok(()) => Coverage::Events,
            Err(error) => Coverage::Polling(reason(&error)),
        }
    }

    fn forget(&mut self, dir: &Path) {
        // The watch of a directory that is gone went with it, and one that is polled has none.
        let _ = self.watcher.unwatch(dir);
    }
}

fn hints(event: notify::Event) -> Vec<Hint> {
    if event.need_rescan() {
        return vec![Hint::Everything];
    }
    let is_reading = matches!(event.kind, EventKind::Access(_));
    if is_reading { Vec::new() } else { event.paths.into_iter().map(Hint::Changed).collect() }
}

/// Why there are no events, in words that name the limit and not a full disk.
fn reason(error: &notify::Error) -> String {
    let limit = match &error.kind {
        notify::ErrorKind::MaxFilesWatch => true,
        notify::ErrorKind::Io(error) => error.kind() == std::io::ErrorKind::StorageFull,
        _ => false,
    };
    // Not of this process alone: every program of the user that follows files has a part of it.
    let too_many = matches!(&error.kind, notify::ErrorKind::Io(error) if error.raw_os_error() == Some(EMFILE));
    if too_many {
        "the system's limit of programs that watch files is reached (fs.inotify.max_user_instances), or that of open files"
            .to_owned()
    } else if limit {
        "the system's limit of file watches is reached (fs.inotify.max_user_watches)".to_owned()
    } else {
        format!("the system gives no file events here: {error}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{AccessKind, AccessMode, CreateKind, Flag};

    #[test]
    fn reading_is_no_hint_and_a_rescan_means_everything() {
        // K47
        let event = |kind| notify::Event::new(kind).add_path("/s/x.jsonl".into());
        assert_eq!(hints(event(EventKind::Access(AccessKind::Open(AccessMode::Any)))), []);
        assert_eq!(hints(event(EventKind::Create(CreateKind::File))), [Hint::Changed("/s/x.jsonl".into())]);
        let rescan = notify::Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert_eq!(hints(rescan), [Hint::Everything]);
    }

    #[test]
    fn a_watch_limit_is_named_as_what_it_is() {
        // K48
        for kind in [notify::ErrorKind::MaxFilesWatch, notify::ErrorKind::Io(std::io::Error::from_raw_os_error(28))] {
            assert!(reason(&notify::Error::new(kind)).contains("max_user_watches"));
        }
        let too_many = notify::ErrorKind::Io(std::io::Error::from_raw_os_error(EMFILE));
        assert!(reason(&notify::Error::new(too_many)).contains("max_user_instances"));
    }
}
