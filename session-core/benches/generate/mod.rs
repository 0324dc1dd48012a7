//! Sessions for benchmarks: turns of prompts, thinking, tool calls and long results, with branches, compactions and labels in
//! the proportions of real ones. The same seed gives the same bytes on every machine; the texts are this crate's own sources.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A small generator of numbers: xorshift.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap_or(0) % limit.max(1)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Between `low` and `high`, small ones more often: the same chance for every factor of two.
    fn size(&mut self, low: usize, high: usize) -> usize {
        let mut high = high;
        while high / 2 > low && self.chance(50) {
            high /= 2;
        }
        low + self.below(high - low)
    }
}

/// One session of at least `bytes` bytes.
pub(crate) fn session(bytes: usize, seed: u64) -> String {
    Writer { random: Random::new(seed), text: sources(), out: String::new(), parent: None, ids: Vec::new(), time: 0 }
        .run(bytes)
}

fn sources() -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files: Vec<_> =
        fs::read_dir(dir).unwrap().map(|item| item.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    files.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

struct Writer {
    random: Random,
    text: String,
    out: String,
    parent: Option<String>,
    ids: Vec<String>,
    time: u64,
}

impl Writer {
    fn run(mut self, bytes: usize) -> String {
        self.out.push_str(
            "{\"type\":\"session\",\"version\":3,\"id\":\"15c0000000000001\",\"timestamp\":\"2026-01-05T09:30:00.000Z\",\"cwd\":\"/w\"}\n",
        );
        self.entry("model_change", "\"model\":\"anthropic/claude\",\"role\":\"default\"");
        while self.out.len() < bytes {
            self.turn();
        }
        self.out
    }

    fn entry(&mut self, kind: &str, fields: &str) {
        let id = format!("{:08x}", self.random.next() >> 32);
        let parent = self.parent.as_ref().map_or_else(|| "null".to_owned(), |parent| format!("\"{parent}\""));
        self.time += self.random.next() % 40_000;
        let (s, ms) = (self.time / 1000, self.time % 1000);
        let (day, hour, minute) = (1 + s / 86_400 % 28, s / 3600 % 24, s / 60 % 60);
        writeln!(
            self.out,
            "{{\"type\":\"{kind}\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"2026-02-{day:02}T{hour:02}:{minute:02}:{:02}.{ms:03}Z\",{fields}}}",
            s % 60,
        )
        .unwrap();
        self.parent = Some(id.clone());
        self.ids.push(id);
    }

    /// Part of the sources, as a JSON text.
    fn quoted(&mut self, low: usize, high: usize) -> String {
        let len = self.random.size(low, high);
        let mut start = self.random.below(self.text.len() - len);
        while !self.text.is_char_boundary(start) {
            start += 1;
        }
        let mut end = (start + len).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        serde_json::to_string(&self.text[start..end]).unwrap()
    }

    fn turn(&mut self) {
        if self.random.chance(5) && self.ids.len() > 30 {
            let back = self.random.below(30);
            self.parent = Some(self.ids[self.ids.len() - 1 - back].clone());
        }
        let prompt = self.quoted(20, 2_000);
        self.message(&format!(
            "\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":{prompt}}}],\"timestamp\":1"
        ));
        for _ in 0..=self.random.below(6) {
            let (thinking, text) = (self.quoted(100, 6_000), self.quoted(40, 4_000));
            let signature = "0".repeat(256);
            let mut blocks = format!(
                "{{\"type\":\"thinking\",\"thinking\":{thinking},\"thinkingSignature\":\"{signature}\"}},{{\"type\":\"text\",\"text\":{text}}}",
            );
            let calls = self.random.below(3);
            for call in 0..calls {
                let content = self.quoted(200, 12_000);
                let arguments = format!("{{\"path\":\"/w/src/lib.rs\",\"content\":{content}}}");
                write!(
                    blocks,
                    ",{{\"type\":\"toolCall\",\"id\":\"call{call}\",\"name\":\"write\",\"arguments\":{arguments}}}"
                )
                .unwrap();
            }
            self.message(&format!(
                "\"role\":\"assistant\",\"content\":[{blocks}],\"api\":\"x\",\"provider\":\"anthropic\",\"model\":\"claude\",\
                 \"usage\":{{\"input\":100,\"output\":20,\"cacheRead\":5,\"cacheWrite\":7,\"cost\":{{\"total\":0.25}}}},\
                 \"stopReason\":\"toolUse\",\"timestamp\":2",
            ));
            for call in 0..calls {
                let result = self.quoted(1_000, 50_000);
                self.message(&format!(
                    "\"role\":\"toolResult\",\"toolCallId\":\"call{call}\",\"toolName\":\"write\",\
                     \"content\":[{{\"type\":\"text\",\"text\":{result}}}],\"isError\":false,\"timestamp\":3",
                ));
            }
        }
        self.rarities();
    }

    fn message(&mut self, fields: &str) {
        self.entry("message", &format!("\"message\":{{{fields}}}"));
    }

    fn rarities(&mut self) {
        let recent = self.ids[self.ids.len() - 1 - self.random.below(self.ids.len().min(20))].clone();
        match self.random.below(100) {
            0..4 => self.entry("thinking_level_change", "\"thinkingLevel\":\"high\""),
            4..7 => self.entry("custom", "\"customType\":\"todo\",\"data\":{\"items\":[\"a\",\"b\"]}"),
            7..9 => self.entry("label", &format!("\"targetId\":\"{recent}\",\"label\":\"here\"")),
            9..11 => {
                let summary = self.quoted(1_000, 8_000);
                self.entry(
                    "compaction",
                    &format!("\"summary\":{summary},\"firstKeptEntryId\":\"{recent}\",\"tokensBefore\":90000"),
                );
            }
            _ => {}
        }
    }
}
