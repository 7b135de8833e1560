// Decides how the changes of a layer meet what a person has changed meanwhile: as they are, merged
// with her text, or in conflict.
import { createHash } from 'node:crypto';
import { isFault } from '../../platform/daemon.ts';
import type { LayerConflict } from '../../wire/sandboxd/layers.ts';
import type { ChangeSide, LayerChange } from './adapters/boxfs-changes.ts';
import type { BoxfsClient } from './adapters/boxfs-client.ts';
import { findConflict, isDirectory, isFile } from './layer-changes.ts';
import type { OriginalFile } from './layer-original-rows.ts';
import type { FoundOriginals, KnownDirectories, LayerOriginals } from './layer-originals.ts';
import { PLACES } from './layer-places.ts';
import type { AppliedChange, BaseSide, LayerRow } from './layer-rows.ts';
import { mergeTexts, TEXT_BYTES_MAX } from './layer-texts.ts';
import type { SandboxdStore } from './store.ts';

/** A change as an apply would make it. */
export type MetChange = {
  /** With the merged file as its new side, and what the layer has as `agents`. */
  change: AppliedChange;
  conflict: LayerConflict | null;
};
export type MetChanges = {
  changes: MetChange[];
  /** The merged texts. */
  texts: ReadonlyMap<string, Buffer>;
  /** Agents have made a repository at the top, where the directory had none. */
  hasOwnRepository?: boolean;
};

export type LayerMerges = {
  /** Leaves out what is the same in the layer and the directory once it is merged. */
  meet(boxfs: Boxfs, row: LayerRow, all: readonly LayerChange[]): Promise<MetChanges>;
  /** The merged texts of those paths that have one, from those of the directory and the layer. */
  mergeShown(
    row: LayerRow,
    texts: readonly { path: string; before: Buffer | null; after: Buffer | null }[],
  ): Promise<ReadonlyMap<string, Buffer>>;
};

type Boxfs = Pick<BoxfsClient, 'readMany' | 'performExactly'>;
const GIT_DIR = '.git';
/** Text that needs merging is compared in this process; more files stay conflicts. */
const MERGES_MAX = 1_000;
const BATCH_MAX = 50;
const STATS_AT_ONCE = 32;
const ROOTS = { before: PLACES.lower, after: PLACES.merged };

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const parentsOf = (path: string): string[] =>
  path.split('/').flatMap((_, at, names) => (at === 0 ? [] : [names.slice(0, at).join('/')]));
const isInGit = (path: string): boolean => path.split('/').includes('.git');
const yieldToOthers = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Returns what the agents' text and the person's come from; undefined: it is not known. */
function findOriginal(
  originals: FoundOriginals,
  path: string,
  base: BaseSide | undefined,
): OriginalFile | undefined {
  const found = isInGit(path) ? undefined : originals.files.get(path);
  // After an apply the agents went on from what it has left.
  return base === undefined || base?.sha256 === found?.sha256 ? found : undefined;
}

/** Undefined if both have changed the mode, each in another way. */
function mergeModes(base: number, ours: number, theirs: number): number | undefined {
  const [x, y, z] = [base, ours, theirs].map((mode) => mode & 0o7777) as [number, number, number];
  if (y === x) return theirs;
  return z === x || z === y ? ours : undefined;
}

function toMerged(change: LayerChange, after: ChangeSide): AppliedChange {
  const { before } = change;
  const kind = before!.sha256 === after.sha256 ? 'mode' : 'modified';
  return { ...change, kind, after, agents: change.after!, isShared: false, isHardLinked: false };
}

async function findStat(boxfs: Boxfs, path: string) {
  return boxfs.performExactly({ op: 'stat', path }).catch((error: unknown) => {
    if (isFault(error, 'not_found')) return undefined;
    throw error;
  });
}

type Kind = 'directory' | 'other' | 'none';
/** Follows no link. */
async function readGitDirs(boxfs: Boxfs): Promise<{ before: Kind; after: Kind }> {
  const [texts] = await boxfs.readMany(ROOTS, { paths: [GIT_DIR], bytesMax: 1 });
  const kindOf = async (side: 'before' | 'after'): Promise<Kind> => {
    if (texts![side] !== null) return 'other';
    const stat = await findStat(boxfs, `${ROOTS[side]}/${GIT_DIR}`);
    return stat === undefined ? 'none' : stat.kind === 'directory' ? 'directory' : 'other';
  };
  return { before: await kindOf('before'), after: await kindOf('after') };
}

/** A person may have made one since: what agents have in theirs is no change of hers. */
async function findOwnRepository(
  boxfs: Boxfs,
  known: KnownDirectories | undefined,
): Promise<boolean> {
  const { before, after } = await readGitDirs(boxfs);
  if (after !== 'directory' || before === 'other') return false;
  return before === 'none' || (known?.isCut === false && !known.inodes.has(GIT_DIR));
}

const isNothing = ({ before, after }: LayerChange): boolean =>
  before!.sha256 === after!.sha256 && (before!.mode & 0o7777) === (after!.mode & 0o7777);

export function makeLayerMerges(options: {
  store: Pick<SandboxdStore, 'listBases'>;
  originals: Pick<LayerOriginals, 'find'>;
}): LayerMerges {
  const { store, originals } = options;

  type Pending = { change: LayerChange; original: OriginalFile; text: Buffer; mode: number };

  /** Undefined: there is nothing to merge with, or no need to. */
  const toPending = (
    change: LayerChange,
    found: FoundOriginals,
    base: BaseSide | undefined,
  ): Pending | undefined => {
    const { path, before, after } = change;
    if (!isFile(before) || !isFile(after)) return undefined;
    const original = findOriginal(found, path, base);
    const text = original && found.read(original);
    if (original === undefined || text === undefined) return undefined;
    const mode = mergeModes(original.mode, before!.mode, after!.mode);
    return mode === undefined ? undefined : { change, original, text, mode };
  };

  const mergeAll = async (boxfs: Boxfs, pending: readonly Pending[]) => {
    const merged = new Map<string, { change: AppliedChange; text: Buffer } | 'overlaps'>();
    for (let at = 0; at < pending.length; at += BATCH_MAX) {
      const batch = pending.slice(at, at + BATCH_MAX);
      const paths = batch.map(({ change }) => change.path);
      const read = await boxfs.readMany(ROOTS, { paths, bytesMax: TEXT_BYTES_MAX });
      for (const [index, { change, text: base, mode }] of batch.entries()) {
        const { before, after } = read[index]!;
        // They have changed since they were listed: the next list says how.
        const isListed =
          before !== null &&
          sha256(before.bytes) === change.before!.sha256 &&
          after !== null &&
          sha256(after.bytes) === change.after!.sha256;
        const text = isListed ? mergeTexts(base, before.bytes, after.bytes) : undefined;
        await yieldToOthers();
        if (text === undefined) {
          merged.set(change.path, 'overlaps');
          continue;
        }
        const type = change.after!.mode & ~0o7777;
        const side = {
          ...change.after!,
          mode: type | (mode & 0o7777),
          sizeBytes: text.length,
          sha256: sha256(text),
        };
        merged.set(change.path, { change: toMerged(change, side), text });
      }
    }
    return merged;
  };

  /** Directories that another one has come in place of since the layer began. */
  const findMoved = async (
    boxfs: Boxfs,
    known: KnownDirectories | undefined,
    dirs: readonly string[],
  ): Promise<ReadonlySet<string>> => {
    const moved = new Set<string>();
    if (known === undefined) return moved;
    const isMoved = async (dir: string): Promise<boolean> => {
      const inode = known.inodes.get(dir);
      if (inode === undefined) return !known.isCut;
      const stat = await findStat(boxfs, `${PLACES.lower}/${dir}`);
      return stat !== undefined && BigInt(stat.file_id.split(':')[1]!) !== inode;
    };
    for (let at = 0; at < dirs.length; at += STATS_AT_ONCE) {
      const some = dirs.slice(at, at + STATS_AT_ONCE);
      const found = await Promise.all(some.map(isMoved));
      for (const [index, dir] of some.entries()) if (found[index] === true) moved.add(dir);
    }
    return moved;
  };

  return {
    async meet(boxfs, row, all) {
      const [bases, found] = [await store.listBases(row.rootTaskId), await originals.find(row)];
      const conflicts = new Map(
        all.map((change) => [
          change.path,
          findConflict(change, bases.get(change.path), row.beganNs),
        ]),
      );
      const pending = all.flatMap((change) =>
        conflicts.get(change.path) === 'changed'
          ? (toPending(change, found, bases.get(change.path)) ?? [])
          : [],
      );
      const merged = await mergeAll(boxfs, pending.slice(0, MERGES_MAX));
      // A path that an apply has written is compared by content.
      const dirsOf = ({ path, before }: LayerChange): string[] =>
        (isDirectory(before) ? [...parentsOf(path), path] : parentsOf(path)).filter(
          (dir) => !bases.has(dir),
        );
      const unsure = all.filter(
        ({ path, before, base }) =>
          base === undefined &&
          before !== undefined &&
          conflicts.get(path) === null &&
          !bases.has(path),
      );
      const dirs = [...new Set(unsure.flatMap(dirsOf))];
      const moved = await findMoved(boxfs, found.directories, dirs);
      if (moved.size > 0)
        for (const change of unsure)
          if (dirsOf(change).some((dir) => moved.has(dir))) conflicts.set(change.path, 'moved');

      const texts = new Map<string, Buffer>();
      const changes = all.flatMap((change): MetChange[] => {
        const conflict = conflicts.get(change.path)!;
        const result = merged.get(change.path);
        if (result === undefined) return [{ change, conflict }];
        if (result === 'overlaps') return [{ change, conflict: 'overlaps' }];
        if (isNothing(result.change)) return [];
        const { sha256: hash, mode } = result.change.after!;
        // The person has only touched the file, or has made the same edit.
        if (hash === change.after!.sha256 && mode === change.after!.mode)
          return [{ change, conflict: null }];
        texts.set(change.path, result.text);
        return [{ change: result.change, conflict: null }];
      });
      const hasGit = all.some(({ path }) => path === GIT_DIR || path.startsWith(`${GIT_DIR}/`));
      const isOwn = hasGit && (await findOwnRepository(boxfs, found.directories));
      return { changes, texts, hasOwnRepository: isOwn };
    },

    async mergeShown(row, texts) {
      const [bases, found] = [await store.listBases(row.rootTaskId), await originals.find(row)];
      const merged = new Map<string, Buffer>();
      for (const { path, before, after } of texts) {
        const original = findOriginal(found, path, bases.get(path));
        const base = original && found.read(original);
        if (base === undefined || before === null || after === null) continue;
        const text = mergeTexts(base, before, after);
        await yieldToOthers();
        if (text !== undefined) merged.set(path, text);
      }
      return merged;
    },
  };
}
