//! What writing a payload costs beside what it cannot cost less than: a walk over its quotes and backslashes for the pass over
//! the text, one write and one sync for a new blob. Each floor is measured in the same run; the ratio is what counts.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark that fails has nothing to say")]

use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use sha2::{Digest, Sha256};

use session_core::storage::FileSessionStorage;
use session_core::{BlobHash, BlobStore, JsonText, SystemClock, persist, resolve_blobs};

const MB: usize = 1_000_000;

fn main() {
    println!("{:<52} {:>12} {:>12} {:>7}", "", "ours", "floor", "ratio");
    println!("one pass over 1 MB against a walk with memchr2");
    let prose = "The quick brown fox jumps over the lazy dog. ".repeat(20) + "\\n";
    let long = array(&format!(r#"{{"type":"text","text":"{prose}"}}"#));
    let code = array(r#"{"type":"text","text":"fn main() {\n\tprintln!(\"{}\", 1);\n}\n"}"#);
    let small = array(r#"{"role":"user","usage":{"input":10,"cost":{"total":0.3}},"ok":true,"id":"x"}"#);
    for (name, json) in
        [("texts of 900 bytes", &long), ("code, an escape each 8 bytes", &code), ("small members", &small)]
    {
        let floor = best(|| walk(json.as_str().as_bytes()));
        let ours = best(|| persist(json, |bytes| Ok(BlobHash::of(bytes))).unwrap().as_str().len());
        row(&format!("  persist, nothing to do: {name}"), ours, floor);
        let store = BlobStore::new(Arc::new(FileSessionStorage::new()), "/nowhere", Arc::new(SystemClock));
        row(&format!("  resolve, no reference: {name}"), best(|| resolve_blobs(json, &store).1.len()), floor);
    }

    println!("a blob of 2 MB against the same with plain files");
    let root = tempfile::tempdir().unwrap();
    let store = BlobStore::new(Arc::new(FileSessionStorage::new()), root.path().join("blobs"), Arc::new(SystemClock));
    let mut image: Vec<u8> = (0..2 * MB).map(|i| (i * i / 7).to_le_bytes()[0]).collect();
    let mut seed = 0_u64;
    let mut fresh = |image: &mut Vec<u8>| {
        seed += 1;
        image[..8].copy_from_slice(&seed.to_le_bytes());
    };
    let raw = root.path().join("raw");
    store.put(&image).unwrap();
    let (mut put, mut write, mut replace) = (Duration::MAX, Duration::MAX, Duration::MAX);
    // Taken in turns, so that a slow moment of the disk strikes both.
    for _ in 0..20 {
        fresh(&mut image);
        put = put.min(time(|| store.put(&image).unwrap()));
        write = write.min(time(|| write_and_sync(&raw, &image)));
        replace = replace.min(time(|| replace_and_sync(root.path(), &raw, &image)));
    }
    row("  put, new: one write and fsync", put, write);
    row("  put, new: write, fsync, rename, fsync of the folder", put, replace);
    let hash = best(|| Sha256::digest(&image)[0]);
    row("  put, there already: its SHA-256", best(|| store.put(&image).unwrap()), hash);
    let name = BlobHash::of(&image);
    row("  get, checked: its SHA-256", best(|| store.get(&name).unwrap().unwrap().len()), hash);
    row("  get, checked: one read", best(|| store.get(&name).unwrap().unwrap().len()), best(|| read(&raw)));

    println!("200 images of 2 MB of base64, each twice (K16)");
    let store = BlobStore::new(Arc::new(FileSessionStorage::new()), root.path().join("k16"), Arc::new(SystemClock));
    let image = &mut image[..MB / 4 * 6];
    let (mut given, mut written) = (0, 0);
    let taken = time(|| {
        for n in (0..200_u64).chain(0..200) {
            image[..8].copy_from_slice(&n.to_le_bytes());
            let data = base64::engine::general_purpose::STANDARD.encode(&*image);
            let payload = JsonText::parse(&format!(r#"{{"content":[{{"type":"image","data":"{data}"}}]}}"#)).unwrap();
            let line = persist(&payload, |bytes| store.put(bytes)).unwrap();
            assert_eq!(*resolve_blobs(&line, &store).0, payload);
            given += payload.as_str().len();
            written += line.as_str().len() + 1;
        }
    });
    let blobs = std::fs::read_dir(store.dir()).unwrap().count();
    println!("  {given} bytes given, {written} written, {blobs} blobs, {} ms with loading", taken.as_millis());
}

/// A payload of 1 MB: one object again and again in a `content` array.
fn array(item: &str) -> JsonText {
    let items = vec![item; MB / item.len()];
    JsonText::parse(&format!(r#"{{"role":"user","content":[{}]}}"#, items.join(","))).unwrap()
}

fn walk(bytes: &[u8]) -> usize {
    memchr::memchr2_iter(b'"', b'\\', bytes).count()
}

fn write_and_sync(path: &Path, bytes: &[u8]) {
    let _ = std::fs::remove_file(path);
    let mut file = std::fs::File::create_new(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

fn replace_and_sync(dir: &Path, path: &Path, bytes: &[u8]) {
    let temporary = path.with_extension("new");
    write_and_sync(&temporary, bytes);
    std::fs::rename(temporary, path).unwrap();
    std::fs::File::open(dir).unwrap().sync_all().unwrap();
}

fn read(path: &Path) -> usize {
    let mut bytes = Vec::new();
    std::fs::File::open(path).unwrap().read_to_end(&mut bytes).unwrap()
}

fn time<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

fn best<T>(mut run: impl FnMut() -> T) -> Duration {
    (0..30).map(|_| time(&mut run)).min().unwrap_or_default()
}

fn row(name: &str, ours: Duration, floor: Duration) {
    let ratio = ours.as_secs_f64() / floor.as_secs_f64();
    println!("{name:<52} {:>9.3} ms {:>9.3} ms {ratio:>7.2}", ours.as_secs_f64() * 1e3, floor.as_secs_f64() * 1e3);
}
