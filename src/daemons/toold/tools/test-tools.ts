// Tools for fault tests, enabled by configuration only: one whose effect can be counted and must
// not happen twice, and one that does nothing.
import { type FileHandle, open } from 'node:fs/promises';
import * as z from 'zod';
import type { Clock } from '../../../platform/clock.ts';
import { fault } from '../../../wire/errors.ts';
import { type Tool, tool } from './tool.ts';

export type AppendLine = (line: string) => Promise<void>;

/** Appends one line, durable when it resolves. */
export function appendToFile(file: string): AppendLine {
  return async (line) => {
    const handle = await openOrFault(file);
    try {
      await handle.appendFile(line);
      await handle.sync();
    } finally {
      await handle.close();
    }
  };
}

async function openOrFault(file: string): Promise<FileHandle> {
  try {
    return await open(file, 'a', 0o600);
  } catch (cause) {
    throw fault('denied', `${file} cannot be opened, so nothing was written`, {
      hint: 'Set toold.test_effect_file to a file that toold may write.',
      cause,
    });
  }
}

function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  const canceledFault = () => fault('canceled', 'the run was dismissed before anything was done');
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(canceledFault());
    if (ms === 0) return resolve();
    const timer = clock.at(clock.nowMs() + ms, () => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    });
    const onAbort = (): void => {
      timer.cancel();
      reject(canceledFault());
    };
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

const delay_ms = z.int().min(0).max(600_000).default(0);

export function testTools(options: { clock: Clock; appendLine: AppendLine }): Tool[] {
  const { clock, appendLine } = options;
  const count = tool({
    name: 'test.count_effect',
    description: 'For tests: writes one line with the key. Doing it twice shows.',
    risk: 'low',
    reversibility: 'irreversible',
    idempotent: false,
    level: 'L0',
    input: z.strictObject({
      key: z.string().regex(/^[\w.:-]{1,200}$/, 'must be letters, digits, _ . : -'),
      delay_ms,
    }),
    output: z.object({ counted: z.string() }),
    async perform({ key, delay_ms }, { signal }) {
      await sleep(clock, delay_ms, signal);
      await appendLine(`${key}\n`);
      return { result: { counted: key } };
    },
  });

  const echo = tool({
    name: 'test.echo',
    description: 'For tests: returns its text.',
    risk: 'low',
    reversibility: 'read-only',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({ text: z.string(), delay_ms }),
    output: z.object({ text: z.string() }),
    async perform({ text, delay_ms }, { signal }) {
      await sleep(clock, delay_ms, signal);
      return { result: { text } };
    },
  });

  return [count, echo];
}
