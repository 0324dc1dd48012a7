// The watcher's extension for xcsh, omp and pi. No dependencies; does nothing where the `watcher` binary is missing.
//
// It tells `watcher hook` what is submitted and which session is the terminal's, and waits for no answer. Other extensions
// keep typed state with it, by the rules of the Rust SDK: `import { state } from "./watcher.ts"`.
//
// Types stand only in `type` declarations and behind the names of constants, so that dropping those lines and these words
// leaves JavaScript: a node that knows no TypeScript tests this very file.

import { spawn } from "node:child_process";
import { readlinkSync } from "node:fs";

// What is used of the harness.

/** An entry of a session. What its data is, only whoever wrote it knows. */
export type Entry = { type: string; id?: string; customType?: string; data?: any; schemaVersion?: number | null };
export type Sessions = {
  getBranch(fromId?: string): Entry[];
  getSessionFile?(): string | undefined;
  getSessionId?(): string;
};
export type Context = { cwd?: string; sessionManager?: Sessions };
/** Of an input: its text, under either name, and who it is from. */
export type HarnessEvent = { text?: unknown; prompt?: unknown; source?: unknown };
export type Handler = (event: HarnessEvent, context: Context) => unknown;
export type Harness = {
  on(event: string, handler: Handler): void;
  appendEntry(customType: string, data?: unknown): void;
};

// What is offered to other extensions.

export type Options<T> = {
  /** The newest version of the data's shape that is understood; 0 by default. */
  version?: number;
  /** Takes data of an older version up to it; without this, older data is refused. */
  upgrade?: (data: any, version: number) => T;
};
export type State<T> = {
  /** The state in force on this branch; undefined when there is none, or it was cleared. */
  load(context: Context): T | undefined;
  /** Saves, unless the state in force is the same; whether an entry was appended. */
  save(context: Context, value: T): boolean;
  /** Ends the state on this branch with an entry without data; whether one was appended. */
  clear(context: Context): boolean;
};

type Extension = (pi: Harness) => void;
type StateOf = <T>(pi: Harness, customType: string, options?: Options<T>) => State<T>;
/** A saved state: the version of its shape, undefined where that can't be read; its data, undefined where it was cleared. */
type Stored = { version: number | undefined; data: any };
type Told = Record<string, unknown>;
type Tell = (event: Told) => void;
type Where = (context: Context) => Told;
type InForce = (context: Context) => Stored | undefined;
type CheckVersion = (found: number | undefined) => void;
type IsVersion = (version: unknown) => boolean;
type Unwrap = (entry: Entry) => Stored;
type Wrap = (data: unknown, version: number) => unknown;
type IsEnvelope = (data: any) => boolean;
type CheckName = (name: string) => void;
type Checked = (value: unknown, version: number) => unknown;
type CheckValue = (value: unknown, place: string, depth: number) => void;
type CheckReference = (value: unknown, place: string) => void;
type Same = (one: any, other: any) => boolean;
type Find = () => string | undefined;
type Attempt = <V>(what: () => V) => V | undefined;

/** The most UTF-16 units that a text keeps on its way to the file; a longer one would be cut. */
const MAX_TEXT_UNITS = 500_000;
/** The most bytes of JSON of one state. */
const MAX_STATE_BYTES = 1_000_000;
/** The deepest nesting that every reader of the family takes. */
const MAX_DEPTH = 127;
/** The highest version there can be. */
const MAX_VERSION = 4_294_967_295;
/** Keys that no program of the family writes to a session. */
const NEVER_WRITTEN = ["partialJson", "jsonlEvents"];
const BLOB_REFERENCE = /^blob:sha256:[0-9a-f]{64}$/;

/** What the events of the harness are called where we tell them. */
const SESSION_EVENTS = {
  session_start: "session_start",
  session_switch: "session_switch",
  session_branch: "session_branch",
  session_fork: "session_branch",
  session_shutdown: "session_end",
};

/** The extension: harnesses call it with their API. */
const watcher: Extension = (pi) => {
  let present = true;
  const harness = harnessName();

  // Starts the hook and goes on: nothing of ours may delay or fail the harness.
  const tell: Tell = (event) => {
    if (!present) return;
    try {
      const binary = process.env.WATCHER_BIN || "watcher";
      const child = spawn(binary, ["hook"], { stdio: ["pipe", "ignore", "ignore"], detached: true });
      child.on("error", () => { present = false; });
      child.stdin.on("error", () => {});
      child.stdin.end(JSON.stringify(event));
      child.unref();
    } catch {
      present = false;
    }
  };

  const where: Where = (context) => {
    const sessions = context?.sessionManager;
    return {
      harness,
      cwd: context?.cwd ?? process.cwd(),
      sessionId: attempt(() => sessions?.getSessionId?.()),
      sessionFile: attempt(() => sessions?.getSessionFile?.()),
      terminal: attempt(terminal),
      time: Date.now(),
    };
  };

  pi.on("input", (event, context) => {
    const text = event?.text ?? event?.prompt;
    // What another extension sends is no person's.
    if (typeof text === "string" && event?.source !== "extension") tell({ event: "prompt", prompt: text, ...where(context) });
  });
  for (const [theirs, ours] of Object.entries(SESSION_EVENTS)) {
    // A harness that knows no such event never sends it.
    attempt(() => pi.on(theirs, (_event, context) => { tell({ event: ours, ...where(context) }); }));
  }
};
export default watcher;

/**
 * A typed state that follows the branch, saved with the harness's own `appendEntry`, under the extension's name or NAME/STATE.
 *
 * The data of an older version is upgraded; that of a newer one is an error, and never overwritten.
 */
export const state: StateOf = (pi, customType, options = {}) => {
  checkName(customType);
  const version = options.version ?? 0;
  if (!isVersion(version)) {
    throw new Error(`${version} is no version: a whole number from 0 up`);
  }

  const inForce: InForce = (context) => {
    const branch = context.sessionManager?.getBranch() ?? [];
    const entry = branch.findLast((entry) => entry.type === "custom" && entry.customType === customType);
    return entry && stored(entry);
  };

  const checkVersion: CheckVersion = (found) => {
    if (found !== undefined && found > version) {
      throw new Error(`the state ${customType} is of version ${found}, and this extension knows up to ${version}`);
    }
  };

  return {
    load(context) {
      const found = inForce(context);
      if (found === undefined || found.data === undefined) return undefined;
      checkVersion(found.version);
      if (found.version === undefined) {
        throw new Error(`the version of the state ${customType} is no whole number from 0 up, so nobody can tell what it is`);
      }
      // What the caller does with it must not change what the harness holds.
      const data = structuredClone(found.data);
      if (found.version === version) return data;
      if (options.upgrade === undefined) {
        throw new Error(`nothing takes the state ${customType} from version ${found.version} to ${version}: give an upgrade`);
      }
      return options.upgrade(data, found.version);
    },

    save(context, value) {
      const data = checked(value, version);
      const found = inForce(context);
      if (found !== undefined) {
        checkVersion(found.version);
        if (found.version === version && found.data !== undefined && same(found.data, data)) return false;
      }
      pi.appendEntry(customType, wrapped(data, version));
      return true;
    },

    clear(context) {
      const found = inForce(context);
      if (found === undefined || found.data === undefined) return false;
      checkVersion(found.version);
      pi.appendEntry(customType);
      return true;
    },
  };
};

/**
 * `appendEntry` takes data and no version to stand beside it, so the version stands in the data: `{"schemaVersion":2,"data":…}`,
 * these two keys alone, in an entry that has no `schemaVersion` of its own. Version 0 needs none, unless the data looks so.
 */
const wrapped: Wrap = (data, version) => (version > 0 || isEnvelope(data) ? { schemaVersion: version, data } : data);

const stored: Unwrap = (entry) => {
  const beside = entry.schemaVersion;
  if (beside !== undefined && beside !== null) return { version: isVersion(beside) ? beside : undefined, data: entry.data };
  if (isEnvelope(entry.data)) return { version: entry.data.schemaVersion, data: entry.data.data };
  return { version: 0, data: entry.data };
};

const isEnvelope: IsEnvelope = (data) => {
  if (typeof data !== "object" || data === null || Array.isArray(data)) return false;
  return Object.keys(data).length === 2 && Object.hasOwn(data, "data") && isVersion(data.schemaVersion);
};

const isVersion: IsVersion = (version) =>
  typeof version === "number" && Number.isInteger(version) && version >= 0 && version <= MAX_VERSION;

const checkName: CheckName = (name) => {
  const bytes = new TextEncoder().encode(name).length;
  // eslint-disable-next-line no-control-regex
  if (name.trim() === "" || bytes > 256 || /[\u0000-\u001f\u007f-\u009f]/.test(name)) {
    throw new Error(`${JSON.stringify(name)} is no name of a state: not blank, at most 256 bytes, no control characters`);
  }
};

/** The value as JSON gives it back; refuses what would not come back. */
const checked: Checked = (value, version) => {
  checkValue(value, "", version > 0 || isEnvelope(value) ? 1 : 0);
  const json = JSON.stringify(value);
  const bytes = new TextEncoder().encode(json).length;
  if (bytes > MAX_STATE_BYTES) throw new Error(`${bytes} bytes of JSON, and the limit is ${MAX_STATE_BYTES}`);
  return JSON.parse(json);
};

/** `place` is a JSON pointer. */
const checkValue: CheckValue = (value, place, depth) => {
  if (value === null || typeof value === "boolean") return;
  const here = place || "the value";
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new Error(`${here}: JSON has no such number`);
    if (Number.isInteger(value) && Math.abs(value) < 1e21 && !Number.isSafeInteger(value)) {
      throw new Error(`${here}: an integer beyond 2^53 - 1 is rounded: save it as a text`);
    }
    return;
  }
  if (typeof value === "string") {
    if (value.length > MAX_TEXT_UNITS) {
      throw new Error(`${here}: a text of ${value.length} UTF-16 units would be cut at ${MAX_TEXT_UNITS}`);
    }
    return;
  }
  if (typeof value !== "object") throw new Error(`${here}: JSON has no ${typeof value}`);
  if (depth >= MAX_DEPTH) throw new Error(`${here}: nested deeper than ${MAX_DEPTH} levels, which could not be read again`);
  if (Array.isArray(value)) {
    const content = place.endsWith("/content");
    for (let index = 0; index < value.length; index++) {
      const item = value[index];
      if (content && item?.type === "image") checkReference(item.data, here);
      checkValue(item, `${place}/${index}`, depth + 1);
    }
    return;
  }
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new Error(`${here}: only plain objects and arrays come back as they are`);
  }
  for (const [key, item] of Object.entries(value)) {
    const below = `${place}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    if (NEVER_WRITTEN.includes(key)) throw new Error(`${below}: no program of this family writes a key of this name`);
    if (item === undefined) throw new Error(`${below}: a key without a value does not come back`);
    if (key === "image_url") checkReference(item, below);
    checkValue(item, below, depth + 1);
  }
};

const checkReference: CheckReference = (value, place) => {
  if (typeof value === "string" && BLOB_REFERENCE.test(value)) {
    throw new Error(`${place}: readers put the image itself in the place of this reference`);
  }
};

/** Whether two JSON values are the same, in whatever order their keys stand. */
const same: Same = (one, other) => {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => Object.hasOwn(other, key) && same(one[key], other[key]));
};

/** Whose extension directory this is in; none where that can't be told, and the watcher takes its default. */
const harnessName: Find = () => {
  const found = /[\\/]\.(xcsh|omp|pi)[\\/]/.exec(import.meta.url);
  return process.env.WATCHER_HARNESS || found?.[1];
};

/** The terminal's device, where the system tells it: our own child has a pipe there. */
const terminal: Find = () =>
  process.stdin.isTTY && process.platform === "linux" ? readlinkSync("/proc/self/fd/0") : undefined;

const attempt: Attempt = (what) => {
  try {
    return what();
  } catch {
    return undefined;
  }
};
