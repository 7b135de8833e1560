// Freezes a running runtime for some milliseconds: every daemon lets its writes wait and keeps its
// database as it is, auditd-ai lets appends wait and signs the log. What is copied from there on is
// of one instant, the same as a kill of all processes at once would leave.
import { closeSync, fstatSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { HeldLogView } from '../../../wire/auditd-ai.ts';
import { DAEMONS, type DaemonName } from '../../../wire/daemons.ts';
import { fault } from '../../../wire/errors.ts';
import type { RuntimeClient } from '../runtime.ts';
import type { DatabaseSource, LogSource, SealedSource, StateSource } from './state-source.ts';
import { openBelow, openDir } from './state-tree.ts';

type Snapshot = { daemon: DaemonName; id: string };

const HOLD_MS = 2_000;
const TRIES_MAX = 5;
const RETRY_DELAY_MS = 200;
/** An unread snapshot expires without such a request. */
const KEEP_INTERVAL_MS = 30_000;
const KEY_FILES = { 'signing.pem': 0o600, 'next.pem': 0o600, 'public.txt': 0o644 };

export async function freeze(runtime: RuntimeClient, auditDir: number): Promise<StateSource> {
  for (let tries = 1; ; tries++) {
    const source = await tryFreeze(runtime, auditDir);
    if (source !== undefined) return source;
    if (tries === TRIES_MAX)
      throw fault('deadline', `the daemons did not stop together within ${HOLD_MS} ms`, {
        hint: 'The machine is very busy; try again, or back up after agentctl down.',
      });
    await sleep(RETRY_DELAY_MS * tries);
  }
}

/** Resolves to undefined when a hold ended before all were in force. */
async function tryFreeze(
  runtime: RuntimeClient,
  auditDir: number,
): Promise<StateSource | undefined> {
  // Before the first hold: what has changed since then may be newer than the databases.
  const takenAtMs = Date.now();
  const unread: Snapshot[] = [];
  const log: LogSource[] = [];
  const sealed: SealedSource[] = [];
  let isFrozen = false;
  try {
    const hold = await holdAll(runtime, unread);
    for (const { name } of hold.segments.slice(0, -1)) sealed.push(openSealed(auditDir, name));
    log.push(...readLog(auditDir, hold));
    isFrozen = await releaseAll(runtime, unread, hold.id);
    if (!isFrozen) return undefined;
    const { size, root, note } = hold.checkpoint;
    const keeping = setInterval(() => void release(runtime, unread), KEEP_INTERVAL_MS);
    return {
      takenAtMs,
      isRunning: true,
      checkpoint: { size, root, note },
      readDatabases: (signal) => readDatabases(runtime, unread, signal),
      log,
      sealed,
      async close() {
        clearInterval(keeping);
        await drop(runtime, unread);
      },
    };
  } finally {
    if (!isFrozen) {
      for (const part of [...log, ...sealed]) if ('fd' in part) closeSync(part.fd);
      await drop(runtime, unread);
    }
  }
}

/** Adds to `unread` what was opened, also when another daemon refused. */
async function holdAll(runtime: RuntimeClient, unread: Snapshot[]): Promise<HeldLogView> {
  const body = { hold_ms: HOLD_MS };
  const opening = DAEMONS.map(async (daemon) => {
    const { snapshot } = await runtime.call(daemon, 'openSnapshot', { body });
    if (snapshot !== null) unread.push({ daemon, id: snapshot.id });
  });
  const holding = runtime.call('auditd-ai', 'holdLog', { body });
  const [held, ...opened] = await Promise.allSettled([holding, ...opening]);
  const failed = [held, ...opened].find((one) => one.status === 'rejected');
  if (failed === undefined && held.status === 'fulfilled') return held.value.hold;
  if (held.status === 'fulfilled')
    await runtime
      .call('auditd-ai', 'releaseLog', { params: { id: held.value.hold.id } })
      .catch(() => undefined);
  throw failed?.reason;
}

/** Resolves to true if every hold was still in force: then there was an instant of them all. */
async function releaseAll(
  runtime: RuntimeClient,
  snapshots: readonly Snapshot[],
  logHold: string,
): Promise<boolean> {
  const log = runtime.call('auditd-ai', 'releaseLog', { params: { id: logHold } });
  const answers = await Promise.all([log, ...release(runtime, snapshots)]);
  return answers.every(({ held }) => held);
}

const release = (runtime: RuntimeClient, snapshots: readonly Snapshot[]) =>
  snapshots.map(({ daemon, id }) =>
    runtime.call(daemon, 'releaseSnapshot', { params: { id } }).catch(() => ({ held: false })),
  );

/** A snapshot whose daemon cannot be reached expires by itself. */
async function drop(runtime: RuntimeClient, snapshots: readonly Snapshot[]): Promise<void> {
  await Promise.allSettled(
    snapshots.map(({ daemon, id }) => runtime.call(daemon, 'dropSnapshot', { params: { id } })),
  );
}

async function* readDatabases(
  runtime: RuntimeClient,
  unread: Snapshot[],
  signal: AbortSignal,
): AsyncGenerator<DatabaseSource> {
  while (unread.length > 0) {
    const { daemon, id } = unread.shift()!;
    const chunks = await runtime.open(daemon, 'readSnapshot', { params: { id } }, signal);
    yield { name: `${daemon}.sqlite`, chunks };
  }
}

/** The current segment may be renamed after the release; its descriptor stays the same. */
function readLog(auditDir: number, hold: HeldLogView): LogSource[] {
  const current = hold.segments.at(-1)!;
  const segment = openBelow(auditDir, current.name);
  if (segment === undefined)
    throw fault('storage_broken', `${current.name} of the audit log cannot be opened`);
  const archive = openBelow(auditDir, 'checkpoints.log');
  return [
    { name: current.name, mode: 0o640, fd: segment, sizeBytes: current.size_bytes },
    { name: 'checkpoint', mode: 0o640, content: Buffer.from(hold.checkpoint.note) },
    ...(archive === undefined
      ? []
      : [
          {
            name: 'checkpoints.log',
            mode: 0o640,
            fd: archive,
            sizeBytes: fstatSync(archive).size,
          },
        ]),
    ...readKeys(auditDir),
    ...readArchived(auditDir),
  ];
}

export function openSealed(auditDir: number, name: string): SealedSource {
  const fd = openBelow(auditDir, name);
  if (fd !== undefined) return { name, fd };
  throw fault('storage_broken', `${name} of the audit log cannot be opened`);
}

/** The records of archived segments, and the tree over their events, which cannot be rebuilt. */
export function readArchived(auditDir: number): LogSource[] {
  const name = 'archived.jsonl';
  const fd = openBelow(auditDir, name);
  if (fd === undefined) return [];
  try {
    const content = readFileSync(fd);
    const last = content.toString('utf8').split('\n').at(-2) ?? '';
    const events = Number(/"end":(\d+)/.exec(last)?.[1] ?? 0);
    return [{ name, mode: 0o640, content }, ...openTree(auditDir, events)];
  } finally {
    closeSync(fd);
  }
}

const HASH_BYTES = 32;

function openTree(auditDir: number, events: number): LogSource[] {
  const tree: LogSource[] = [];
  for (let level = 0, nodes = events; nodes > 0; level += 1, nodes = Math.floor(nodes / 2)) {
    const name = `tree/L${String(level).padStart(2, '0')}`;
    const fd = openBelow(auditDir, name);
    if (fd !== undefined) tree.push({ name, mode: 0o640, fd, sizeBytes: nodes * HASH_BYTES });
  }
  return tree;
}

/** Read whole: a key rotation must not come between the log and its key. */
export function readKeys(auditDir: number): LogSource[] {
  const dir = openDir(`/proc/self/fd/${auditDir}/keys`);
  try {
    return Object.entries(KEY_FILES).flatMap(([name, mode]) => {
      const fd = openBelow(dir, name);
      if (fd === undefined) return [];
      try {
        return [{ name: `keys/${name}`, mode, content: readFileSync(fd) }];
      } finally {
        closeSync(fd);
      }
    });
  } finally {
    closeSync(dir);
  }
}
