// The watcher's extension for xcsh, omp and pi. No dependencies; does nothing where the `watcher` binary is missing.
//
// It tells `watcher hook` what is submitted and which session is the terminal's, and waits for no answer. Other extensions
// keep typed state with it, by the rules of the Rust SDK: `import { state } from "./watcher.ts"`.
//
// Types stand in comments, so that this very file is JavaScript too (as `watcher.js`), and is tested as it is shipped.

import { spawn } from "node:child_process";
import { readlinkSync } from "node:fs";

/**
 * What is used of the harness.
 * @typedef {{ type: string, id?: string, customType?: string, data?: unknown, schemaVersion?: number }} Entry
 * @typedef {{ getBranch(fromId?: string): Entry[], getSessionFile?(): string | undefined, getSessionId?(): string }} Sessions
 * @typedef {{ cwd?: string, sessionManager?: Sessions }} Context
 * @typedef {{ on(event: string, handler: (event: any, context: Context) => unknown): void,
 *             appendEntry(customType: string, data?: unknown): void }} Harness
 */

/** The most UTF-16 units that a text keeps on its way to the file; a longer one would be cut. */
const MAX_TEXT_UNITS = 500_000;
/** The most bytes of JSON of one state. */
const MAX_STATE_BYTES = 1_000_000;
/** The deepest nesting that every reader of the family takes. */
const MAX_DEPTH = 127;
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

/**
 * The extension: harnesses call it with their API.
 * @param {Harness} pi
 */
export default function watcher(pi) {
  let present = true;
  const harness = harnessName();

  /**
   * Starts the hook and goes on: nothing of ours may delay or fail the harness.
   * @param {Record<string, unknown>} event
   */
  function tell(event) {
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
  }

  /** @param {Context} context */
  function where(context) {
    const sessions = context?.sessionManager;
    return {
      harness,
      cwd: context?.cwd ?? process.cwd(),
      sessionId: attempt(() => sessions?.getSessionId?.()),
      sessionFile: attempt(() => sessions?.getSessionFile?.()),
      terminal: attempt(terminal),
      time: Date.now(),
    };
  }

  pi.on("input", (event, context) => {
    const text = event?.text ?? event?.prompt;
    // What another extension sends is no person's.
    if (typeof text === "string" && event?.source !== "extension") tell({ event: "prompt", prompt: text, ...where(context) });
  });
  for (const [theirs, ours] of Object.entries(SESSION_EVENTS)) {
    // A harness that knows no such event never sends it.
    attempt(() => pi.on(theirs, (_event, context) => { tell({ event: ours, ...where(context) }); }));
  }
}

/**
 * A typed state that follows the branch, saved with the harness's own `appendEntry`.
 *
 * `appendEntry` keeps no schema version, so what is saved here is version 0 to the Rust SDK. State that names a version above
 * ours is never overwritten.
 *
 * @template T
 * @param {Harness} pi
 * @param {string} customType  the extension's name, or NAME/STATE
 * @param {{ version?: number, upgrade?: (data: unknown, version: number) => T }} [options]  the newest version that is
 *   understood (0 by default), and what takes older data up to it
 */
export function state(pi, customType, options = {}) {
  checkName(customType);
  const version = options.version ?? 0;

  /** @param {Context} context */
  function inForce(context) {
    const branch = context.sessionManager?.getBranch() ?? [];
    return branch.findLast((entry) => entry.type === "custom" && entry.customType === customType);
  }

  /** @param {Entry} entry */
  function checkVersion(entry) {
    const found = entry.schemaVersion ?? 0;
    if (found > version) {
      throw new Error(`the state ${customType} is of version ${found}, and this extension knows up to ${version}`);
    }
    return found;
  }

  return {
    /**
     * The state in force on this branch; undefined when there is none, or it was cleared.
     * @param {Context} context
     * @returns {T | undefined}
     */
    load(context) {
      const entry = inForce(context);
      if (entry === undefined || entry.data === undefined) return undefined;
      const found = checkVersion(entry);
      const data = structuredClone(entry.data);
      return options.upgrade && found < version ? options.upgrade(data, found) : /** @type {T} */ (data);
    },

    /**
     * Saves, unless the state in force is the same. Nothing is appended when the value would not come back as it is.
     * @param {Context} context
     * @param {T} value
     * @returns {boolean} whether an entry was appended
     */
    save(context, value) {
      const data = checked(value);
      const entry = inForce(context);
      if (entry !== undefined) {
        checkVersion(entry);
        if (entry.data !== undefined && same(entry.data, data)) return false;
      }
      pi.appendEntry(customType, data);
      return true;
    },

    /**
     * Ends the state on this branch: an entry without data.
     * @param {Context} context
     * @returns {boolean} whether an entry was appended
     */
    clear(context) {
      const entry = inForce(context);
      if (entry === undefined || entry.data === undefined) return false;
      checkVersion(entry);
      pi.appendEntry(customType);
      return true;
    },
  };
}

/** @param {string} name */
function checkName(name) {
  const bytes = new TextEncoder().encode(name).length;
  // eslint-disable-next-line no-control-regex
  if (name.trim() === "" || bytes > 256 || /[\u0000-\u001f\u007f-\u009f]/.test(name)) {
    throw new Error(`${JSON.stringify(name)} is no name of a state: not blank, at most 256 bytes, no control characters`);
  }
}

/**
 * The value as JSON gives it back; refuses what would not come back.
 * @param {unknown} value
 */
function checked(value) {
  checkValue(value, "", 0);
  const json = JSON.stringify(value);
  const bytes = new TextEncoder().encode(json).length;
  if (bytes > MAX_STATE_BYTES) throw new Error(`${bytes} bytes of JSON, and the limit is ${MAX_STATE_BYTES}`);
  return JSON.parse(json);
}

/**
 * @param {unknown} value
 * @param {string} place  a JSON pointer
 * @param {number} depth
 */
function checkValue(value, place, depth) {
  const refuse = (/** @type {string} */ why) => { throw new Error(`${place || "the value"}: ${why}`); };
  if (value === null || typeof value === "boolean") return;
  if (typeof value === "number") {
    if (!Number.isFinite(value)) refuse("JSON has no such number");
    if (Number.isInteger(value) && Math.abs(value) < 1e21 && !Number.isSafeInteger(value)) {
      refuse("an integer beyond 2^53 - 1 is rounded: save it as a text");
    }
    return;
  }
  if (typeof value === "string") {
    if (value.length > MAX_TEXT_UNITS) refuse(`a text of ${value.length} UTF-16 units would be cut at ${MAX_TEXT_UNITS}`);
    return;
  }
  if (typeof value !== "object") refuse(`JSON has no ${typeof value}`);
  if (depth >= MAX_DEPTH) refuse(`nested deeper than ${MAX_DEPTH} levels, which could not be read again`);
  const object = /** @type {object} */ (value);
  if (Array.isArray(object)) {
    const content = place.endsWith("/content");
    for (let index = 0; index < object.length; index++) {
      const item = object[index];
      if (content && item?.type === "image" && BLOB_REFERENCE.test(item.data)) {
        refuse("readers put the image itself in the place of this reference");
      }
      checkValue(item, `${place}/${index}`, depth + 1);
    }
    return;
  }
  const prototype = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) refuse("only plain objects and arrays come back as they are");
  for (const [key, item] of Object.entries(object)) {
    const below = `${place}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    if (NEVER_WRITTEN.includes(key)) throw new Error(`${below}: no program of this family writes a key of this name`);
    if (key === "image_url" && typeof item === "string" && BLOB_REFERENCE.test(item)) {
      throw new Error(`${below}: readers put the image itself in the place of this reference`);
    }
    if (item === undefined) throw new Error(`${below}: a key without a value does not come back`);
    checkValue(item, below, depth + 1);
  }
}

/**
 * Whether two JSON values are the same, in whatever order their keys stand.
 * @param {any} one
 * @param {any} other
 * @returns {boolean}
 */
function same(one, other) {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => Object.hasOwn(other, key) && same(one[key], other[key]));
}

/** Whose extension directory this is in; none where that can't be told, and the watcher takes its default. */
function harnessName() {
  const found = /[\\/]\.(xcsh|omp|pi)[\\/]/.exec(import.meta.url);
  return process.env.WATCHER_HARNESS || found?.[1];
}

/** The terminal's device, where the system tells it: our own child has a pipe there. */
function terminal() {
  return process.stdin.isTTY && process.platform === "linux" ? readlinkSync("/proc/self/fd/0") : undefined;
}

/**
 * @template V
 * @param {() => V} what
 * @returns {V | undefined}
 */
function attempt(what) {
  try {
    return what();
  } catch {
    return undefined;
  }
}
