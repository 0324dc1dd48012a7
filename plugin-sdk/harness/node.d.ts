// What our extensions use of node, for a type check without any packages. A project that has `@types/node` needs none of it.

declare module "node:child_process" {
  type Stream = { on(event: "error", listener: (error: Error) => void): void; end(text: string): void };
  type Child = { stdin: Stream; on(event: "error", listener: (error: Error) => void): void; unref(): void };
  type Options = { stdio: ["pipe", "ignore", "ignore"]; detached: boolean };
  export function spawn(command: string, args: string[], options: Options): Child;
}

declare module "node:fs" {
  export function readlinkSync(path: string): string;
}

declare const process: {
  env: Record<string, string | undefined>;
  platform: string;
  stdin: { isTTY?: boolean };
  cwd(): string;
};

interface ImportMeta {
  url: string;
}
