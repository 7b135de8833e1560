// Starts the parser when there is mail to read, and ends it: at once when it takes too long, and
// after a while without mail. Mails are parsed one at a time.
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Log } from '../../../platform/log.ts';
import { makeMutex } from '../../../platform/mutex.ts';
import type { ParsedMail, ParseRequest, ParseResponse } from './messages.ts';

export type MailParser = {
  /** `problem`: the mail cannot be read, and never will be. */
  parse(raw: Uint8Array, withContent: boolean): Promise<{ mail: ParsedMail } | { problem: string }>;
  stop(): void;
};

const PARSE_MS_MAX = 10_000;
const IDLE_MS = 10_000;
const HEAP_MB_MAX = 192;

/** Beside the bundle, or in the source. */
const PROGRAM = import.meta.url.endsWith('.ts')
  ? new URL('./main.ts', import.meta.url)
  : new URL('./mail-parser.mjs', import.meta.url);

export function makeMailParser({ log }: { log: Log }): MailParser {
  let child: ChildProcess | undefined;
  let idle: NodeJS.Timeout | undefined;
  let lastId = 0;
  const withLock = makeMutex();

  const end = (): void => {
    clearTimeout(idle);
    child?.kill('SIGKILL');
    child = undefined;
  };

  const start = (): ChildProcess => {
    const path = fileURLToPath(PROGRAM);
    const source = fileURLToPath(new URL('../../../../', PROGRAM));
    const started = fork(path, [], {
      // It can read its own code and no other file, write none, and start no program.
      execArgv: [
        '--permission',
        `--allow-fs-read=${path.endsWith('.ts') ? source : path}`,
        `--max-old-space-size=${HEAP_MB_MAX}`,
        '--no-warnings',
      ],
      env: {},
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    started.unref();
    started.channel?.unref();
    return started;
  };

  const ask = (raw: Uint8Array, withContent: boolean) =>
    new Promise<{ mail: ParsedMail } | { problem: string }>((resolve) => {
      child ??= start();
      const current = child;
      const id = ++lastId;
      const finish = (answer: { mail: ParsedMail } | { problem: string }): void => {
        clearTimeout(timer);
        current.off('message', onMessage);
        current.off('exit', onExit);
        resolve(answer);
      };
      const onMessage = (response: ParseResponse): void => {
        if (response.id === id) finish(response);
      };
      const onExit = (): void => {
        if (child === current) child = undefined;
        finish({ problem: 'reading it needs too much memory' });
      };
      const timer = setTimeout(() => {
        log.warn('reading a mail took too long', { size_bytes: raw.length });
        end();
        finish({ problem: 'reading it takes too long' });
      }, PARSE_MS_MAX);
      current.on('message', onMessage);
      current.once('exit', onExit);
      current.send({ id, raw, withContent } satisfies ParseRequest, (error) => {
        if (error !== null) onExit();
      });
    });

  return {
    parse: (raw, withContent) =>
      withLock(async () => {
        clearTimeout(idle);
        const answer = await ask(raw, withContent);
        idle = setTimeout(end, IDLE_MS).unref();
        return answer;
      }),
    stop: end,
  };
}
