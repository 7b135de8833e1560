// Reads and watches the directory of declared tools. An invalid file is reported with its line, and
// its tool is unavailable until it is fixed; the others stay available.
import { constants } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../../platform/clock.ts';
import { decodeUtf8 } from '../../../platform/json.ts';
import type { Log } from '../../../platform/log.ts';
import { makeMutex } from '../../../platform/mutex.ts';
import { watchDir } from '../../../platform/watch-dir.ts';
import { readYaml } from '../../../platform/yaml-file.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import type { Tool } from '../tools/tool.ts';
import { Declaration } from './declaration.ts';
import { type CommandExecutor, makeCommandTool } from './make.ts';

export type { CommandExecutor } from './make.ts';

export type CommandToolSet = { tools: Tool[]; problems: FileProblem[] };

export type CommandToolDir = {
  current(): CommandToolSet;
  rescan(): Promise<void>;
  close(): void;
};

export type CommandToolOptions = {
  dir: string;
  /** The names of built-in tools. */
  taken: ReadonlySet<string>;
  places: { host: CommandExecutor };
  clock: Clock;
  log: Log;
  onChange?: (set: CommandToolSet) => void;
  lookEveryMs?: number;
  settleMs?: number;
};

const FILE_BYTES_MAX = 65_536;
const FILES_MAX = 500;
const OTHERS_WRITE = 0o022;

export async function openCommandTools(options: CommandToolOptions): Promise<CommandToolDir> {
  const { dir, clock, log, settleMs = 100, lookEveryMs = 2_000 } = options;
  let set: CommandToolSet = { tools: [], problems: [] };
  let seen = '';
  let closed = false;
  const withLock = makeMutex();

  const scan = (): Promise<void> =>
    withLock(async () => {
      if (closed) return;
      const files = await readFiles(dir);
      const fingerprint = JSON.stringify(files);
      if (closed || fingerprint === seen) return;
      set = makeSet(files, options);
      seen = fingerprint;
      for (const { file, line, message, hint } of set.problems)
        log.warn('declared tool unavailable', { file, line, message, hint });
      options.onChange?.(set);
    });
  const scanInBackground = (): void => {
    scan().catch((error: unknown) => log.error('reading declared tools failed', { dir, error }));
  };

  const followed = watchDir({
    dir,
    clock,
    settleMs,
    pollIntervalMs: lookEveryMs,
    onChange: scanInBackground,
  });
  await scan();
  return {
    current: () => set,
    rescan: scan,
    close() {
      closed = true;
      followed.close();
    },
  };
}

type ReadFile = { file: string; text: string } | { file: string; problem: FileProblem };

async function readFiles(dir: string): Promise<ReadFile[]> {
  let names: string[];
  try {
    names = await readdir(dir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    return [{ file: dir, problem: describeUnreadable(dir, (error as Error).message) }];
  }
  const files = names.filter((name) => /^[^.].*\.ya?ml$/.test(name)).sort();
  return Promise.all(files.slice(0, FILES_MAX).map((name) => readDeclarationFile(join(dir, name))));
}

const describeUnreadable = (file: string, message: string): FileProblem => ({
  file,
  line: null,
  message,
  hint: 'Make it a readable file that only this user can change, or remove it.',
});

/** A writer of this file can run programs as this user, so only root and this user may be. */
async function readDeclarationFile(file: string): Promise<ReadFile> {
  let handle: FileHandle | undefined;
  const refuse = (why: string): ReadFile => ({ file, problem: describeUnreadable(file, why) });
  try {
    handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    const stat = await handle.stat();
    if (!stat.isFile()) return refuse('is not a file');
    if (stat.uid !== 0 && stat.uid !== process.getuid?.())
      return refuse(`belongs to another user (uid ${stat.uid})`);
    if ((stat.mode & OTHERS_WRITE) !== 0) return refuse('can be changed by other users');
    if (stat.size > FILE_BYTES_MAX) return refuse(`is larger than ${FILE_BYTES_MAX} bytes`);
    return { file, text: decodeUtf8(await handle.readFile()) };
  } catch (error) {
    return refuse(`cannot be read: ${(error as Error).message}`);
  } finally {
    await handle?.close();
  }
}

function makeSet(
  files: readonly ReadFile[],
  { taken, places }: CommandToolOptions,
): CommandToolSet {
  const tools = new Map<string, { file: string; tool: Tool }>();
  const problems: FileProblem[] = [];
  for (const read of files) {
    if ('problem' in read) {
      problems.push(read.problem);
      continue;
    }
    const { file, text } = read;
    const result = readYaml(text, file, Declaration);
    if (!result.ok) {
      problems.push(...result.problems);
      continue;
    }
    const { name } = result.value;
    const other = tools.get(name)?.file ?? (taken.has(name) ? 'the built-in tools' : undefined);
    if (other === undefined) tools.set(name, { file, tool: makeCommandTool(result.value, places) });
    else
      problems.push({
        file,
        line: 1,
        message: `tool ${name} already exists in ${other}`,
        hint: 'Choose another name.',
      });
  }
  return { tools: [...tools.values()].map(({ tool }) => tool), problems };
}
