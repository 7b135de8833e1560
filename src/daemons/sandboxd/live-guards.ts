// Guards directories that agents change in place: after each command, what git would run or follow
// and was not there before is moved to a quarantine. What cannot be checked is refused, or checked
// again until it can be.
import type { Clock } from '../../platform/clock.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import { makeKeyedMutex } from '../../platform/mutex.ts';
import { makeWakeLoop } from '../../platform/wake-loop.ts';
import {
  findArmedFiles,
  findRepositories,
  LISTED_IN_REPOSITORIES,
} from '../../policy/armed-git.ts';
import { fault } from '../../wire/errors.ts';
import type { BoxId } from '../../wire/primitives.ts';
import { type BoxfsClient, boxfsArgs, openBoxfs } from './adapters/boxfs-client.ts';
import type { FoundFile } from './adapters/boxfs-watch.ts';
import type { Bind } from './adapters/plan.ts';
import type { SandboxCommand, Warden } from './adapters/warden.ts';
import { BOXFS, toDuplex } from './box-files.ts';
import { boxLimits } from './box-limits.ts';
import type { SandboxdConfig } from './config.ts';
import { type Disarmed, disarm } from './live-quarantine.ts';
import type { LivePlace } from './live-rows.ts';
import { PROTECTED, WORKSPACE } from './rules.ts';
import type { SandboxdStore } from './store.ts';

/** Resolves to what an agent has to know, when its command and all that it started have ended. */
export type LeaveLive = () => Promise<string | undefined>;

export type LiveGuards = {
  /** Before a command; throws when the directory cannot be checked, and nothing may run. */
  enter(place: LivePlace): Promise<LeaveLive>;
  /** For as long as a box of the place is open; must be released once. */
  hold(place: LivePlace): () => void;
  /** Checks directories in which commands ran when this process, or the warden, ended. */
  resume(): void;
  stop(): Promise<void>;
};

type Guard = {
  place: LivePlace;
  holders: number;
  running: number;
  /** Before the first of the running commands; undefined: none of them was recorded. */
  armed: Map<string, string> | undefined;
  boxfs: Promise<{ client: BoxfsClient; close(): Promise<void> }> | undefined;
};

const RULES = { read: [], write: [], deny: [] };
const RETRY_BACKOFF_MS = { min: 500, max: 60_000 };
/** Each moves some files; whoever still makes new ones is a command that is looked at later. */
const ROUNDS_MAX = 20;
const SHOWN_MAX = 20;

/** The kernel protects these: only a person changes them. */
const SEALED = PROTECTED.map(({ path }) => path.slice(WORKSPACE.length + 1));
const isSealed = (path: string): boolean =>
  SEALED.some((top) => path === top || path.startsWith(`${top}/`));

const keyOf = ({ rootTaskId, uid }: LivePlace): string => `${rootTaskId} ${uid}`;
const signOf = ({ fileId, changedNs, mode, sizeBytes }: FoundFile): string =>
  [fileId, changedNs, mode, sizeBytes].join(' ');

const listLimited = (paths: readonly string[]): string => {
  const shown = paths.slice(0, SHOWN_MAX).map((path) => path.toWellFormed());
  const more = paths.length - shown.length;
  return more === 0 ? shown.join(', ') : `${shown.join(', ')} and ${more} more`;
};

const NOT_CHECKED =
  'The directory could not be checked for git settings and hooks; it is checked before the next command.';

export function makeLiveGuards(options: {
  config: SandboxdConfig;
  warden: Pick<Warden, 'open'>;
  store: Pick<SandboxdStore, 'findLive' | 'listLive' | 'beginLive' | 'endLive' | 'addDisarmed'>;
  /** The programs of agentd. */
  tools: readonly Bind[];
  /** Where removed files are kept, a directory for each task tree. */
  quarantine: string;
  newId: NewId;
  clock: Clock;
  log: Log;
  failpoint: (name: string) => void;
}): LiveGuards {
  const { store, log, clock, failpoint } = options;
  const guards = new Map<string, Guard>();
  const withGuard = makeKeyedMutex();

  const guardFor = (place: LivePlace): Guard => {
    const found = guards.get(keyOf(place));
    const guard = found ?? { place, holders: 0, running: 0, armed: undefined, boxfs: undefined };
    guards.set(keyOf(place), guard);
    return guard;
  };

  const closeIfUnused = (guard: Guard): void => {
    if (guard.holders > 0 || guard.running > 0) return;
    if (guards.get(keyOf(guard.place)) === guard) guards.delete(keyOf(guard.place));
    void guard.boxfs?.then(({ close }) => close()).catch(() => undefined);
    guard.boxfs = undefined;
  };

  const openGuardBox = async (guard: Guard) => {
    const { uid, gid, path, isOwned } = guard.place;
    const limits = boxLimits(options.config, RULES);
    const tree: Bind = { kind: 'rw', src: path, dst: WORKSPACE, owned: isOwned };
    const box = await options.warden.open({
      id: options.newId<BoxId>('box'),
      level: 2,
      profile: 'tool',
      uid,
      gid,
      user: 'agent-live',
      binds: [...options.tools, tree],
      limits,
    });
    const roots = [{ path: WORKSPACE, writable: true }];
    try {
      const args = [BOXFS, ...boxfsArgs(roots)];
      const command = await box.exec({ args, env: {}, cwd: '/', limits });
      const client = await openBoxfs({ stream: toDuplex(command, log), roots, clock });
      void client.ended.then(() => {
        guard.boxfs = undefined;
        void box.close();
      });
      const close = async (): Promise<void> => {
        client.close();
        await box.close();
      };
      return { client, close };
    } catch (error) {
      await box.close();
      throw error;
    }
  };

  const boxfsOf = async (guard: Guard): Promise<BoxfsClient> => {
    const opening = guard.boxfs ?? openGuardBox(guard);
    guard.boxfs = opening;
    opening.catch(() => {
      if (guard.boxfs === opening) guard.boxfs = undefined;
    });
    return (await opening).client;
  };

  const look = async (client: BoxfsClient) => {
    const { found, hasMore } = await client.watch(WORKSPACE, LISTED_IN_REPOSITORIES);
    const armed = findArmedFiles(found).filter(({ file }) => !isSealed(file.path));
    return {
      hasMore,
      armed,
      repositories: findRepositories(found),
      closed: found.filter(({ isClosed }) => isClosed),
      stripped: found.filter(({ isStripped }) => isStripped),
    };
  };

  const begin = async (guard: Guard): Promise<void> => {
    const { armed, closed, hasMore } = await look(await boxfsOf(guard));
    if (hasMore)
      throw fault('too_large', 'the directory has too many repositories to be checked', {
        hint: 'Create the task without --live: agents then work on a layer over the directory.',
      });
    const files = [...armed.map(({ file }) => file), ...closed];
    const before = new Map(files.map((file) => [file.path, signOf(file)]));
    await store.beginLive({ place: guard.place, armed: Object.fromEntries(before) });
    guard.armed = before;
  };

  /** Moves away what was not armed before; resolves to what became of it. */
  const settle = async (guard: Guard, before: Map<string, string>) => {
    const client = await boxfsOf(guard);
    const [moved, stripped, closed]: [Disarmed[], string[], string[]] = [[], [], []];
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const seen = await look(client);
      const isNew = (file: FoundFile): boolean => before.get(file.path) !== signOf(file);
      const fresh = seen.armed.filter(({ file }) => isNew(file));
      stripped.push(...seen.stripped.map(({ path }) => path));
      for (const file of seen.closed.filter(isNew)) {
        closed.push(file.path);
        before.set(file.path, signOf(file));
      }
      for (const armed of fresh) {
        const context = { ...options, client, place: guard.place, repositories: seen.repositories };
        const done = await disarm(armed, context);
        if (done === 'harmless') before.set(armed.file.path, signOf(armed.file));
        else if (done !== 'gone') moved.push(done);
      }
      failpoint('sandboxd.after-disarm');
      if (!seen.hasMore && fresh.every(({ file }) => before.has(file.path) && !isNew(file))) break;
      if (round === ROUNDS_MAX - 1)
        throw fault('overloaded', 'new git settings and hooks appear as fast as they are removed');
    }
    return { moved, stripped, closed };
  };

  const toNote = ({ moved, stripped, closed }: Awaited<ReturnType<typeof settle>>) => {
    const parts = [
      moved.length === 0
        ? []
        : [
            `Removed from the workspace, because git would run or follow it for the person who owns ` +
              `it: ${listLimited(moved.map(({ path, title }) => `${path} (${title})`))}. ` +
              'The person can restore it; work without it.',
          ],
      stripped.length === 0 ? [] : [`No longer setuid or setgid: ${listLimited(stripped)}.`],
      closed.length === 0 ? [] : [`Could not be looked at, for git: ${listLimited(closed)}.`],
    ].flat();
    return parts.length === 0 ? undefined : parts.join(' ');
  };

  /** Checks what earlier commands left, when it could not be checked at their end. */
  const catchUp = async (guard: Guard): Promise<void> => {
    const left = guard.armed ?? (await readLeft(guard.place));
    if (left === undefined) return;
    const note = toNote(await settle(guard, left));
    if (note !== undefined) log.warn('disarmed a workspace late', { path: guard.place.path, note });
    await store.endLive(guard.place);
    guard.armed = undefined;
  };
  const readLeft = async ({ rootTaskId, uid }: LivePlace) => {
    const row = await store.findLive(rootTaskId, uid);
    return row && new Map(Object.entries(row.armed));
  };

  const retries = makeWakeLoop({
    clock,
    async work() {
      for (const { place } of await store.listLive()) {
        const guard = guardFor(place);
        await withGuard(keyOf(place), async () => {
          try {
            if (guard.running === 0) await catchUp(guard);
          } finally {
            closeIfUnused(guard);
          }
        });
      }
      return undefined;
    },
    backoffMs: RETRY_BACKOFF_MS,
    onError: (error) => log.error('checking a workspace for git settings failed', { error }),
  });

  const leave = async (guard: Guard): Promise<string | undefined> => {
    guard.running--;
    try {
      const note = toNote(await settle(guard, guard.armed!));
      if (guard.running === 0) {
        await store.endLive(guard.place);
        guard.armed = undefined;
      }
      return note;
    } catch (error) {
      log.error('checking a workspace for git settings failed', { error });
      retries.wake();
      return NOT_CHECKED;
    } finally {
      closeIfUnused(guard);
    }
  };

  return {
    enter: (place) =>
      withGuard(keyOf(place), async () => {
        const guard = guardFor(place);
        try {
          if (guard.running === 0) {
            guard.place = place;
            await catchUp(guard);
            await begin(guard);
          }
          guard.running++;
        } catch (error) {
          closeIfUnused(guard);
          throw error;
        }
        return () => withGuard(keyOf(place), () => leave(guard));
      }),
    hold(place) {
      const guard = guardFor(place);
      guard.holders++;
      return () => {
        guard.holders--;
        void withGuard(keyOf(place), async () => closeIfUnused(guard));
      };
    },
    resume: () => retries.wake(),
    async stop() {
      await retries.stop();
      for (const [key, guard] of guards)
        await withGuard(key, async () => {
          await guard.boxfs?.then(({ close }) => close()).catch(() => undefined);
        });
    },
  };
}

/** Starts a command; its end says what its agent has to know of the person's directory. */
export async function startGuarded(
  guards: Pick<LiveGuards, 'enter'>,
  place: LivePlace | undefined,
  start: () => Promise<SandboxCommand>,
): Promise<SandboxCommand> {
  if (place === undefined) return start();
  const leaveLive = await guards.enter(place);
  const command = await start().catch(async (error: unknown) => {
    await leaveLive();
    throw error;
  });
  const ended = command.ended.then(async (exit) => {
    const note = await leaveLive();
    if (exit === 'gone' || note === undefined) return exit;
    return { ...exit, note: exit.note === undefined ? note : `${exit.note} ${note}` };
  });
  return { ...command, ended };
}
