// Gives each state directory that root starts on this host uids and gids of its own: otherwise an
// agent of one runtime could own files of another's. A registry of root's remembers them, because a
// state keeps its ids for ever: its files have them.
import { existsSync, lstatSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sandboxdConfig } from '../daemons/sandboxd/config.ts';
import { type HostUser, toDaemonUser } from '../daemons/sandboxd/identities.ts';
import { tryLock } from '../platform/lock.ts';
import { writeAtomically } from '../platform/state-dir.ts';
import { fault } from '../wire/errors.ts';
import { readRootsFile } from './chown-state.ts';
import type { AgentIds, RuntimeConfig } from './options.ts';
import { chooseServiceUser, type ServiceUser } from './service-user.ts';

const NAMES = ['uid_first', 'uid_last', 'gid_first', 'gid_last'] as const;

type Entry = AgentIds & {
  path: string;
  device: string;
  inode: string;
  /** The daemons'. */
  user: number;
  /** From the configuration, which may change. */
  is_configured: boolean;
};
export type AssignedIds = {
  ranges: AgentIds;
  user: ServiceUser;
  /** The ids of other state directories, as lines of a bounds file. */
  others: string;
  warnings: string[];
};

const DEFAULT = pickRanges(sandboxdConfig.parse({}));
/** No distribution or service manager assigns these. */
const SLOTS = { first: 0x7000_0000, size: 0x10_0000, count: 256, uids: 65_536 } as const;
const SLOTS_LAST = SLOTS.first + SLOTS.count * SLOTS.size - 1;
/** States that are started later have these. */
const ALL_SLOTS = `uid ${SLOTS.first} ${SLOTS_LAST}\ngid ${SLOTS.first} ${SLOTS_LAST}\n`;
const SLOT_FILE = 'agent-ids';
const LOCK_TRIES = 100;
const LOCK_WAIT_MS = 50;

function pickRanges(from: AgentIds): AgentIds {
  const { uid_first, uid_last, gid_first, gid_last } = from;
  return { uid_first, uid_last, gid_first, gid_last };
}

function slotRanges(slot: number): AgentIds {
  const first = SLOTS.first + slot * SLOTS.size;
  return {
    uid_first: first,
    uid_last: first + SLOTS.uids - 1,
    gid_first: first + SLOTS.uids,
    gid_last: first + SLOTS.size - 1,
  };
}

const isSame = (a: AgentIds, b: AgentIds): boolean => NAMES.every((name) => a[name] === b[name]);

/** Groups of task trees are uids too, where a tree works on a layer. */
function overlaps(a: AgentIds, b: AgentIds): boolean {
  const spans = (one: AgentIds) =>
    [
      [one.uid_first, one.uid_last],
      [one.gid_first, one.gid_last],
    ] as const;
  return spans(a).some(([first, last]) =>
    spans(b).some(([from, to]) => first <= to && from <= last),
  );
}

/** Assigns ids under the registry's lock. Two runtimes that start at once get different ones. */
export function assignIds(options: {
  keeperDir: string;
  stateDir: string;
  config: RuntimeConfig;
  passwd?: string;
}): AssignedIds {
  const file = join(options.keeperDir, 'ids.json');
  const lock = waitForLock(join(options.keeperDir, 'ids.lock'));
  try {
    const entries = readEntries(file);
    const { entry, ...assigned } = assign(entries, options);
    const rest = entries.filter((one) => one !== assigned.replaced);
    writeAtomically(file, `${JSON.stringify([...rest, entry], null, 1)}\n`);
    if (assigned.isNew) writeSlot(options.stateDir, slotOf(entry.uid_first));
    return {
      ranges: pickRanges(entry),
      user: assigned.user,
      others: [...rest.map(formatBounds), ALL_SLOTS].join(''),
      warnings: assigned.warnings,
    };
  } finally {
    lock.release();
  }
}

function waitForLock(file: string) {
  for (let tries = 0; tries < LOCK_TRIES; tries++) {
    const lock = tryLock(file);
    if (lock !== undefined) return lock;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_WAIT_MS);
  }
  throw fault('state_in_use', `another runtime that starts holds ${file}`, {
    hint: 'Try again in a moment.',
  });
}

/** An unreadable registry is no empty one: ids could be assigned twice. */
function readEntries(file: string): Entry[] {
  if (!existsSync(file)) return [];
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Entry[];
  } catch (cause) {
    throw fault('storage_broken', `${file}, the registry of ids, cannot be read`, {
      hint: 'Restore it from a backup of this host, or name the ranges in every agentd.yaml.',
      cause,
    });
  }
}

const formatBounds = (one: Entry): string =>
  `uid ${one.uid_first} ${one.uid_last}\nuid ${one.gid_first} ${one.gid_last}\n` +
  `uid ${one.user} ${one.user}\ngid ${one.uid_first} ${one.uid_last}\n` +
  `gid ${one.gid_first} ${one.gid_last}\n`;

function assign(
  entries: readonly Entry[],
  { stateDir, config, passwd }: { stateDir: string; config: RuntimeConfig; passwd?: string },
) {
  const stat = statSync(stateDir, { bigint: true });
  const [device, inode] = [String(stat.dev), String(stat.ino)];
  // Moved: a new directory could have the inode of a removed one, but belongs to root.
  const isMoved = (one: Entry) =>
    one.device === device && one.inode === inode && Number(stat.uid) === one.user && !isLive(one);
  const known = entries.find((one) => one.path === stateDir) ?? entries.find(isMoved);
  const others = entries.filter((one) => one !== known);
  // Where it belongs to root, only root could have made the database.
  const isNew =
    known === undefined && Number(stat.uid) === 0 && !existsSync(join(stateDir, 'sandboxd.sqlite'));
  const configured = pickRanges(config.sandboxd);
  const isConfigured = config.sandboxd.identity === 'users' || !isSame(configured, DEFAULT);
  const warnings: string[] = [];
  const ranges = isConfigured
    ? configured
    : known !== undefined && !known.is_configured
      ? pickRanges(known)
      : isNew
        ? findFree(others)
        : rangesOf(Number(stat.uid) === 0 ? readSlot(stateDir) : slotOf(Number(stat.uid)));
  const taken = others.find((one) => isLive(one) && overlaps(one, ranges));
  if (taken !== undefined && isNew) throw overlapFault(taken);
  if (taken !== undefined)
    warnings.push(`agents here and those of ${taken.path} have the same users: ${OVERLAP_HINT}`);
  const own = { ...config, sandboxd: { ...config.sandboxd, ...ranges } };
  const user = chooseUser(own, passwd, { others, known, isNew });
  const sharing = others.find((one) => isLive(one) && one.user === user.uid);
  if (sharing !== undefined)
    warnings.push(
      `the daemons here and those of ${sharing.path} are the same user, ${user.name}: ` +
        'set runtime.user of one of them to another account',
    );
  const place = { path: stateDir, device, inode };
  const entry: Entry = { ...place, ...ranges, user: user.uid, is_configured: isConfigured };
  return { entry, user, warnings, isNew, replaced: known };
}

/** Its state directory is still there. Device numbers change when a host is restarted. */
function isLive({ path, inode }: Entry): boolean {
  const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return stat !== undefined && String(stat.ino) === inode;
}

/** Returns the slot that an id is in; undefined for one of the defaults, or of an account. */
function slotOf(id: number): number | undefined {
  const slot = Math.floor((id - SLOTS.first) / SLOTS.size);
  return slot >= 0 && slot < SLOTS.count ? slot : undefined;
}

/** The ids of a state that is not in the registry: its owner or a restored backup has the slot. */
const rangesOf = (slot: number | undefined): AgentIds =>
  slot === undefined ? DEFAULT : slotRanges(slot);

/** For backups: a state is restored with the ids that its files have. Only while it is root's. */
function writeSlot(stateDir: string, slot: number | undefined): void {
  const file = join(stateDir, SLOT_FILE);
  rmSync(file, { force: true });
  if (slot !== undefined) writeFileSync(file, `${slot}\n`, { mode: 0o600, flag: 'wx' });
}

function readSlot(stateDir: string): number | undefined {
  const file = join(stateDir, SLOT_FILE);
  if (!existsSync(file)) return undefined;
  const text = readRootsFile(file);
  if (/^\d{1,3}\n$/.test(text) && Number(text) < SLOTS.count) return Number(text);
  throw fault('bad_config', `${file} does not name ids of this agentd`, {
    hint: 'Restore it from the backup that the state is from.',
  });
}

/** Ids of a removed state may still be on files elsewhere: they are used again last. */
function findFree(others: readonly Entry[]): AgentIds {
  const all = [DEFAULT, ...Array.from({ length: SLOTS.count }, (_, slot) => slotRanges(slot))];
  for (const used of [others, others.filter(isLive)]) {
    const free = all.find((ranges) => !used.some((one) => overlaps(one, ranges)));
    if (free !== undefined) return free;
  }
  throw fault('limit', `no ids are left for another state directory on this host`, {
    hint: 'Remove a state directory that is not needed.',
  });
}

const OVERLAP_HINT = 'give one of them its own sandboxd.uid_first, uid_last, gid_first, gid_last';

const overlapFault = (taken: Entry) =>
  fault('bad_config', `the ids of this configuration overlap with those of ${taken.path}`, {
    hint: 'Set sandboxd.uid_first, uid_last, gid_first and gid_last to free ids, or omit all four.',
  });

/** Two states share an account only if the configuration of both names it. */
function chooseUser(
  config: RuntimeConfig,
  passwd: string | undefined,
  { others, known, isNew }: { others: Entry[]; known: Entry | undefined; isNew: boolean },
): ServiceUser {
  const user = passwd === undefined ? chooseServiceUser(config) : chooseServiceUser(config, passwd);
  const sharing = others.find((one) => isLive(one) && one.user === user.uid);
  if (sharing === undefined || known?.user === user.uid) return user;
  if (config.runtime.user === undefined) {
    const own: HostUser = toDaemonUser(config.sandboxd);
    return isNew || known?.user === own.uid ? { ...own, name: `uid ${own.uid}` } : user;
  }
  if (!isNew) return user;
  throw fault('bad_config', `${user.name} is the daemons’ user of ${sharing.path} already`, {
    hint: 'Name another account in runtime.user, or omit it.',
  });
}
