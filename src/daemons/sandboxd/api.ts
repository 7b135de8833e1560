// sandboxd's routes: each calls runners, boxes or what the host offers. What a command prints is
// passed on as it comes, and a reader that goes away ends the command.
import { toTimestamp } from '../../platform/clock.ts';
import { type Handlers, RawAnswer } from '../../platform/dispatch.ts';
import { cutPage, readNumberCursor } from '../../platform/page.ts';
import { fault } from '../../wire/errors.ts';
import type { RunId } from '../../wire/primitives.ts';
import type { FileAsk } from '../../wire/sandboxd/files.ts';
import type {
  BoxView,
  Collected,
  CommandEnd,
  CommandEvent,
  sandboxdRoutes,
} from '../../wire/sandboxd.ts';
import type { CommandExit, SandboxCommand } from './adapters/warden.ts';
import type { BoxTable } from './boxes.ts';
import type { Identities } from './identities.ts';
import type { Levels } from './levels.ts';
import type { Runners } from './runners.ts';
import type { BoxRow, SandboxdStore } from './store.ts';
import type { Workspaces } from './workspaces.ts';

const GROWS: ReadonlySet<FileAsk['op']> = new Set(['write', 'mkdir']);

export type SandboxdDeps = {
  runners: Runners;
  boxes: BoxTable;
  levels: Pick<Levels, 'view'>;
  identities: Pick<Identities, 'mode' | 'nobody'>;
  workspaces: Pick<Workspaces, 'check'>;
  store: Pick<SandboxdStore, 'list'>;
};

export function makeHandlers(deps: SandboxdDeps): Handlers<typeof sandboxdRoutes> {
  const { runners, boxes, levels, identities, workspaces, store } = deps;
  const keyOf = (id: RunId, query: { fence: number; mode?: 'live' | 'replay' | undefined }) => ({
    runId: id,
    fence: query.fence,
    mode: query.mode ?? 'live',
  });
  return {
    features: () => levels.view(),
    async identity() {
      const { mode, nobody } = identities;
      return { identity: mode, uid: mode === 'single' ? nobody.uid : null };
    },
    async checkWorkspace({ body }) {
      await workspaces.check(body.path);
      return { path: body.path };
    },
    async listBoxes({ query }) {
      const { limit, open } = query;
      const before = readNumberCursor(query.cursor) ?? Number.MAX_SAFE_INTEGER;
      const only = open === undefined ? undefined : open === 'true';
      const found = await store.list({ before, limit: limit + 1, open: only });
      const { rows, cursor } = cutPage(found, limit, ({ place }) => place);
      return { boxes: rows.map(viewOf), cursor };
    },
    startRunner({ body }) {
      // The boxes of an earlier activation are closed, and their commands ended, before this one.
      if (body.mode === 'live') boxes.closeEarlier(body.run_id, body.fence);
      return runners.start(body);
    },
    runnerEnds: ({ query, signal }) => runners.ends(query, signal),
    tellRunner: async ({ params, query, body }) => ({
      told: runners.tell(keyOf(params.id, query), body.line),
    }),
    endRunner: async ({ params, query }) => ({
      ended: await runners.end(keyOf(params.id, query)),
    }),
    endRunners: async () => ({ ended: await runners.endAll() }),
    async openBox({ params, body, signal }) {
      const view = await boxes.open(params.id, body);
      // Nobody knows of it, so nobody would close it.
      if (signal.aborted) await boxes.close(params.id);
      return view;
    },
    async execBox({ params, body, signal }) {
      const command = await boxes.exec(params.id, body, signal);
      return answer(command, body.collect === true, signal);
    },
    boxFiles: ({ params, body }) => boxes.files(params.id, body, GROWS.has(body.op)),
    closeBox: async ({ params }) => ({ closed: await boxes.close(params.id) }),
    closeBoxes: async () => ({ closed: await boxes.closeAll() }),
    async runOnce({ body, signal }) {
      const command = await boxes.runOnce(body, signal);
      return answer(command, body.collect === true, signal);
    },
  };
}

function answer(
  command: SandboxCommand,
  isCollected: boolean,
  signal: AbortSignal,
): Promise<Collected> | RawAnswer {
  const onGone = (): void => command.kill();
  // Who went while it was being started is not told of any more.
  if (signal.aborted) onGone();
  signal.addEventListener('abort', onGone, { once: true });
  void command.ended.then(() => signal.removeEventListener('abort', onGone));
  if (isCollected) return collect(command);
  const headers = { 'content-type': 'application/x-ndjson' };
  return new RawAnswer({ status: 200, headers, body: lines(command) });
}

async function* lines(command: SandboxCommand): AsyncGenerator<string> {
  const line = (event: CommandEvent): string => `${JSON.stringify(event)}\n`;
  try {
    for await (const { stream, bytes } of command.pieces()) {
      const text = bytes.toString('base64');
      yield line(stream === 'stdout' ? { stdout: text } : { stderr: text });
    }
    const exit = await command.ended;
    if (exit === 'gone') yield line({ error: { ...wardenGone().toBody() } });
    else yield line({ end: endOf(exit) });
  } finally {
    command.kill();
  }
}

async function collect(command: SandboxCommand): Promise<Collected> {
  const kept: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
  for await (const { stream, bytes } of command.pieces()) kept[stream].push(bytes);
  const exit = await command.ended;
  if (exit === 'gone') throw wardenGone();
  return {
    ...endOf(exit),
    stdout_base64: Buffer.concat(kept.stdout).toString('base64'),
    stderr_base64: Buffer.concat(kept.stderr).toString('base64'),
  };
}

const wardenGone = () =>
  fault('unavailable', 'the warden went away while the command ran, and the command with it');

function endOf(exit: Exclude<CommandExit, 'gone'>): CommandEnd {
  return {
    exit_code: exit.exitCode,
    signal: exit.signal,
    ended_by: exit.endedBy,
    ...(exit.note === undefined ? {} : { note: exit.note }),
    usage: {
      wall_ms: exit.wallMs,
      cpu_ms: exit.cpuMs,
      memory_peak_bytes: exit.memoryPeakBytes,
      stdout_bytes: exit.stdoutBytes,
      stderr_bytes: exit.stderrBytes,
    },
  };
}

function viewOf(row: BoxRow): BoxView {
  return {
    id: row.id,
    kind: row.kind,
    level: row.level,
    run_id: row.run_id,
    fence: Number(row.fence),
    agent: row.agent,
    task_id: row.task_id,
    uid: Number(row.uid),
    opened_at: toTimestamp(Number(row.opened_ms)),
    closed_at: row.closed_ms === null ? null : toTimestamp(Number(row.closed_ms)),
    ended_by: row.ended_by,
  };
}
