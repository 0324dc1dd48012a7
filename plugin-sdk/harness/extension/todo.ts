// A list of things to do that follows the branch: an extension to begin from. Put it beside `watcher.ts`.
//
// Version 1 was a bare array of texts; version 2 knows what is done.

import { state, type Context, type Harness, type State } from "./watcher.ts";

type Todo = { text: string; done: boolean };

export default function todo(pi: Harness): void {
  const todos: State<Todo[]> = state(pi, "todo", {
    version: 2,
    upgrade: (data: string[], _version) => data.map((text) => ({ text, done: false })),
  });

  pi.on("input", (event, context) => {
    if (typeof event.text === "string" && event.text.startsWith("TODO ")) add(todos, context, event.text.slice(5));
  });
}

function add(todos: State<Todo[]>, context: Context, text: string): void {
  todos.save(context, [...(todos.load(context) ?? []), { text, done: false }]);
}
