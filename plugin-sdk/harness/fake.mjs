// A harness that is none, for the tests of the extension: `node fake.mjs EXTENSION (load|save|clear|drive) SESSION …`.
// It reads a session file, offers what extensions are offered, and appends as the harnesses do.

import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { randomBytes } from "node:crypto";

const [extension, command, file, ...rest] = process.argv.slice(2);
const { default: watcher, state } = await import(pathToFileURL(javascript(extension)));

// The file itself where node reads TypeScript; else its JavaScript, written beside it.
function javascript(extension) {
  if (process.features.typescript) return extension;
  const lines = [];
  let inType = false;
  for (const line of readFileSync(extension, "utf8").split("\n")) {
    inType ||= /^(export )?type /.test(line);
    if (!inType) lines.push(line.replace(/^(\s*(?:export )?const \w+): [\w<>[\]]+ = /, "$1 = "));
    // A declaration ends where a line that is not indented does.
    if (/^\S.*;$/.test(line)) inType = false;
  }
  const stripped = extension.replace(/\.ts$/, ".mjs");
  writeFileSync(stripped, lines.join("\n"));
  return stripped;
}

function branch() {
  const entries = readFileSync(file, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line)).slice(1);
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const path = [];
  for (let entry = entries.at(-1); entry; entry = byId.get(entry.parentId)) path.unshift(entry);
  return path;
}

const handlers = new Map();
const pi = {
  on(event, handler) {
    handlers.set(event, [...(handlers.get(event) ?? []), handler]);
  },
  appendEntry(customType, data) {
    const id = randomBytes(4).toString("hex");
    const entry = { type: "custom", id, parentId: branch().at(-1)?.id ?? null, timestamp: new Date().toISOString() };
    appendFileSync(file, `${JSON.stringify({ ...entry, customType, data })}\n`);
  },
};
const context = {
  cwd: "/w",
  sessionManager: { getBranch: branch, getSessionFile: () => file, getSessionId: () => "0000000000000e01" },
};

if (command === "drive") {
  watcher(pi);
  let longest = 0;
  const send = (name, event) => {
    for (const handler of handlers.get(name) ?? []) {
      const begun = performance.now();
      const answer = handler(event, context);
      longest = Math.max(longest, performance.now() - begun);
      if (answer !== undefined) throw new Error(`${name}: the extension answers ${answer}, which may change what is sent`);
    }
  };
  send("session_start", { type: "session_start" });
  send("input", { type: "input", text: rest[0], source: "interactive" });
  send("input", { type: "input", text: "by an extension", source: "extension" });
  for (const name of ["session_switch", "session_branch", "session_shutdown"]) send(name, { type: name });
  console.log(JSON.stringify({ longest, events: [...handlers.keys()] }));
} else {
  const [customType, version, value] = rest;
  // Each step of an upgrade leaves its mark, so that a test sees which were taken.
  const upgrade = (data, from) => ({ ...data, upgraded: `${from} to ${version}` });
  const kept = state(pi, customType, { version: Number(version), upgrade });
  const commands = {
    load: () => kept.load(context) ?? null,
    // What is too long for a command line stands in a file.
    save: () => kept.save(context, JSON.parse(value.startsWith("@") ? readFileSync(value.slice(1), "utf8") : value)),
    clear: () => kept.clear(context),
  };
  try {
    console.log(JSON.stringify(commands[command]()));
  } catch (error) {
    console.log(error.message);
  }
}
