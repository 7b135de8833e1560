// Runs git in boxes that hold a layer or a person's directory. No setting of either makes it run a
// program: no hook, monitor, filter, pager, helper or transport.
import { buildSafeGitEnv, SAFE_GIT_SETTINGS } from '../../policy/safe-git.ts';
import { fault } from '../../wire/errors.ts';
import type { SandboxCommand } from './adapters/warden.ts';

export type GitCommand = Pick<
  SandboxCommand,
  'readOutput' | 'discard' | 'stdin' | 'stdinEnd' | 'kill' | 'ended'
>;
/** Starts programs in a box; `args[0]` is `git`. */
export type GitBox = {
  exec(command: { args: string[]; env: Record<string, string>; cwd: string }): Promise<GitCommand>;
};
/** A working tree in a box. New objects go to `objects` if that is set, and not to its own. */
export type GitPlace = { box: GitBox; top: string; objects?: string };

const SETTINGS = [
  ...SAFE_GIT_SETTINGS,
  ['transfer.fsckobjects', 'true'],
  ['index.recordendofindexentries', 'false'],
] as const;

const envFor = ({ top, objects }: GitPlace): Record<string, string> =>
  buildSafeGitEnv(SETTINGS, {
    // Named, so that git neither searches for a repository nor asks who owns it.
    GIT_DIR: `${top}/.git`,
    GIT_WORK_TREE: top,
    // In the reflog.
    GIT_COMMITTER_NAME: 'agentd',
    GIT_COMMITTER_EMAIL: 'agentd@agents.invalid',
    ...(objects === undefined
      ? {}
      : {
          GIT_OBJECT_DIRECTORY: objects,
          GIT_ALTERNATE_OBJECT_DIRECTORIES: `${top}/.git/objects`,
        }),
  });

const startGit = (place: GitPlace, args: readonly string[]): Promise<GitCommand> =>
  place.box.exec({ args: ['git', '--no-pager', ...args], env: envFor(place), cwd: place.top });

const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;
const ERROR_BYTES_MAX = 4_000;

/** Reads its output up to a limit; stderr is kept for the message of a fault. */
async function collect(
  command: GitCommand,
  onStdout: (bytes: Buffer) => Promise<void> | void,
): Promise<string> {
  let errors = '';
  for await (const { stream, bytes } of command.readOutput()) {
    if (stream === 'stdout') await onStdout(bytes);
    else if (errors.length < ERROR_BYTES_MAX) errors += bytes.toString();
  }
  return errors.slice(0, ERROR_BYTES_MAX).trim();
}

async function statusOf(command: GitCommand): Promise<number | null> {
  const exit = await command.ended;
  return exit === 'gone' ? null : exit.exitCode;
}

export type GitResult = { status: number | null; stdout: Buffer; stderr: string };

/** Returns its result whether it succeeds or not. */
export async function tryGit(
  place: GitPlace,
  args: readonly string[],
  stdin?: Buffer,
): Promise<GitResult> {
  const command = await startGit(place, args);
  const parts: Buffer[] = [];
  let size = 0;
  const reading = collect(command, (bytes) => {
    size += bytes.length;
    if (size > OUTPUT_BYTES_MAX) {
      command.kill();
      throw fault('too_large', `git ${args[0]} printed more than ${OUTPUT_BYTES_MAX} bytes`);
    }
    parts.push(bytes);
  });
  // It may end before it has read everything.
  if (stdin !== undefined) await command.stdin(stdin).catch(() => undefined);
  command.stdinEnd();
  const stderr = await reading;
  return { status: await statusOf(command), stdout: Buffer.concat(parts), stderr };
}

export async function runGit(
  place: GitPlace,
  args: readonly string[],
  stdin?: Buffer,
): Promise<Buffer> {
  const { status, stdout, stderr } = await tryGit(place, args, stdin);
  if (status === 0) return stdout;
  throw fault(
    'unavailable',
    `git ${args[0]} failed in ${place.top}: ${stderr || 'nothing printed'}`,
    { details: { reason: 'git' } },
  );
}

/** Streams what one prints into the other, in another box; neither has to fit into memory. */
export async function pipeGit(
  from: GitPlace & { args: readonly string[]; stdin: Buffer },
  to: GitPlace & { args: readonly string[] },
  bytesMax: number,
): Promise<{ from: GitResult; to: GitResult; isTooLarge: boolean }> {
  const source = await startGit(from, from.args);
  const sink = await startGit(to, to.args);
  let size = 0;
  const printed: Buffer[] = [];
  const draining = collect(sink, (bytes) => void printed.push(bytes));
  const moving = collect(source, async (bytes) => {
    size += bytes.length;
    if (size > bytesMax) source.kill();
    else await sink.stdin(bytes).catch(() => source.kill());
  });
  await source.stdin(from.stdin).catch(() => undefined);
  source.stdinEnd();
  const sourceErrors = await moving;
  const sourceStatus = await statusOf(source);
  // A pack that was cut must not look complete: without its end it is not accepted.
  if (sourceStatus !== 0 || size > bytesMax) sink.kill();
  sink.stdinEnd();
  const sinkErrors = await draining;
  return {
    from: { status: sourceStatus, stdout: Buffer.alloc(0), stderr: sourceErrors },
    to: { status: await statusOf(sink), stdout: Buffer.concat(printed), stderr: sinkErrors },
    isTooLarge: size > bytesMax,
  };
}
