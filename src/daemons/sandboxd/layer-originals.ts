// Keeps what the changes of a layer began from: the texts of files that agents have changed, as
// they were when the layer began, and the inodes of the directories. boxfs reads them, in a box
// that has no program of an agent, after each command.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../platform/clock.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import { makeKeyedMutex } from '../../platform/mutex.ts';
import type { BoxId } from '../../wire/primitives.ts';
import { type BoxfsClient, boxfsArgs, openBoxfs } from './adapters/boxfs-client.ts';
import type { CoveredFile } from './adapters/boxfs-originals.ts';
import type { Bind } from './adapters/plan.ts';
import type { Warden } from './adapters/warden.ts';
import { BOXFS, toDuplex } from './box-files.ts';
import { boxLimits } from './box-limits.ts';
import type { SandboxdConfig } from './config.ts';
import { isFile } from './layer-changes.ts';
import type { LayerKey, OriginalFile } from './layer-original-rows.ts';
import { PLACES } from './layer-places.ts';
import type { BaseSide, LayerRow } from './layer-rows.ts';
import { isText, TEXT_BYTES_MAX } from './layer-texts.ts';
import type { Layers } from './layers.ts';
import type { SandboxdStore } from './store.ts';

export type LayerOriginals = {
  /** For as long as a box on the layer is open; must be released once. */
  hold(rootTaskId: string): () => void;
  /**
   * After what a box has changed. Never rejects, and takes a short time at most: what is not kept
   * cannot be merged, that is all.
   */
  keep(rootTaskId: string): Promise<void>;
  /** Ends what works for a tree, before a change below its layer. */
  closeTree(rootTaskId: string): Promise<void>;
  find(layer: LayerKey): Promise<FoundOriginals>;
  /** Removes what no layer of the tree needs any more. */
  sweep(rootTaskId: string): Promise<void>;
  stop(): Promise<void>;
};

export type FoundOriginals = {
  files: ReadonlyMap<string, OriginalFile>;
  /** Undefined: the text is gone. */
  read(file: OriginalFile): Buffer | undefined;
  directories: KnownDirectories | undefined;
};
/** `isCut`: those that are missing may have been there all the same. */
export type KnownDirectories = { inodes: ReadonlyMap<string, bigint>; isCut: boolean };

const RULES = { read: [], write: [], deny: [] };
/** In one tree. */
const FILES_MAX = 5_000;
const BYTES_MAX = 64 * 1024 * 1024;
const COVERED_MAX = 20_000;
const BATCH = { files: 200, bytes: 8 * 1024 * 1024 };
const DIRECTORIES_MAX = 50_000;
/** The end of a command waits for this. */
const KEEP_WAIT_MS = 2_000;

type Keeper = {
  rootTaskId: string;
  holders: number;
  next: Promise<void> | undefined;
  open: Promise<OpenKeeper> | undefined;
};
type OpenKeeper = {
  boxfs: BoxfsClient;
  layer: LayerKey & Pick<LayerRow, 'copies'>;
  files: Map<string, OriginalFile>;
  bases: ReadonlyMap<string, BaseSide>;
  /** Files without a text, or of which it cannot be known any more. */
  rejected: Set<string>;
  close(): Promise<void>;
};

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const signOf = ({ path, changedNs, sizeBytes, mode }: CoveredFile): string =>
  [changedNs, sizeBytes, mode, path].join(' ');

export function makeLayerOriginals(options: {
  config: SandboxdConfig;
  layers: Pick<Layers, 'find' | 'dirOf' | 'uppersOf' | 'recordDir' | 'userFor'>;
  store: Pick<
    SandboxdStore,
    | 'listOriginals'
    | 'addOriginals'
    | 'keepOriginalsOf'
    | 'listOriginalHashes'
    | 'listBases'
    | 'findLayer'
    | 'findKept'
  >;
  warden: Pick<Warden, 'open'>;
  /** The programs of agentd. */
  tools: readonly Bind[];
  newId: NewId;
  clock: Clock;
  log: Log;
}): LayerOriginals {
  const { config, layers, store, log, clock } = options;
  const keepers = new Map<string, Keeper>();
  const withTree = makeKeyedMutex();

  const dirOf = (rootTaskId: string): string =>
    join(layers.dirOf({ rootTaskId, own: null }), 'originals');
  const directoriesFile = ({ rootTaskId, beganNs }: LayerKey): string =>
    join(dirOf(rootTaskId), `directories-${beganNs}`);

  const write = (rootTaskId: string, name: string, content: Buffer | string): void => {
    const dir = dirOf(rootTaskId);
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    writeFileSync(join(dir, 'new'), content, { mode: 0o600 });
    renameSync(join(dir, 'new'), join(dir, name));
  };

  const keeperFor = (rootTaskId: string): Keeper => {
    const found = keepers.get(rootTaskId);
    const keeper = found ?? { rootTaskId, holders: 0, next: undefined, open: undefined };
    keepers.set(rootTaskId, keeper);
    return keeper;
  };

  const openKeeper = async (row: LayerRow): Promise<OpenKeeper> => {
    const limits = boxLimits(config, RULES);
    const binds: Bind[] = [
      { kind: 'ro', src: layers.uppersOf(row).upper, dst: PLACES.merged },
      { kind: 'ro', src: layers.recordDir(row), dst: PLACES.upper },
      { kind: 'ro', src: row.path, dst: PLACES.lower, owned: true },
    ];
    const box = await options.warden.open({
      id: options.newId<BoxId>('box'),
      level: 2,
      profile: 'tool',
      ...(await layers.userFor(row)),
      user: 'agent-layer',
      binds: [...options.tools, ...binds],
      ownerRights: true,
      limits,
    });
    try {
      const roots = binds.map(({ dst }) => ({ path: dst, writable: false }));
      const args = [BOXFS, ...boxfsArgs(roots)];
      const command = await box.exec({ args, env: {}, cwd: '/', limits });
      const boxfs = await openBoxfs({ stream: toDuplex(command, log), roots, clock });
      const files = await store.listOriginals(row);
      const bases = await store.listBases(row.rootTaskId);
      const close = async (): Promise<void> => {
        boxfs.close();
        await box.close();
      };
      return { boxfs, layer: row, files, bases, rejected: new Set(), close };
    } catch (error) {
      await box.close();
      throw error;
    }
  };

  const close = async (keeper: Keeper): Promise<void> => {
    const { open } = keeper;
    keeper.open = undefined;
    await open?.then(({ close }) => close()).catch(() => undefined);
  };

  const openFor = async (keeper: Keeper, row: LayerRow): Promise<OpenKeeper> => {
    const found = await keeper.open?.catch(() => undefined);
    if (found?.layer.beganNs === row.beganNs) return found;
    await close(keeper);
    const opening = openKeeper(row);
    keeper.open = opening;
    const opened = await opening;
    void opened.boxfs.ended.then(() => {
      if (keeper.open === opening) void close(keeper);
    });
    return opened;
  };

  const keepDirectories = async ({ boxfs, layer }: OpenKeeper): Promise<void> => {
    if (readDirectories(layer) !== undefined) return;
    const { inodes, isCut } = await boxfs.listDirectories(PLACES.lower, DIRECTORIES_MAX);
    const lines = [...inodes].map(([path, inode]) => [path, String(inode)]);
    const name = directoriesFile(layer).slice(dirOf(layer.rootTaskId).length + 1);
    write(layer.rootTaskId, name, JSON.stringify({ isCut, inodes: lines }));
  };

  const readDirectories = (layer: LayerKey): KnownDirectories | undefined => {
    try {
      const { isCut, inodes } = JSON.parse(readFileSync(directoriesFile(layer), 'utf8')) as {
        isCut: boolean;
        inodes: [string, string][];
      };
      return { isCut, inodes: new Map(inodes.map(([path, inode]) => [path, BigInt(inode)])) };
    } catch {
      return undefined;
    }
  };

  /**
   * A text counts only if the file is as it was when the layer began, or as an apply has left it:
   * an agent may have read it at any time since.
   */
  const isWanted = ({ layer, files, bases, rejected }: OpenKeeper, file: CoveredFile): boolean => {
    if (file.sizeBytes > TEXT_BYTES_MAX || rejected.has(signOf(file))) return false;
    const known = files.get(file.path);
    const base = bases.get(file.path);
    if (base === undefined)
      return known === undefined && (layer.copies !== null || file.changedNs < layer.beganNs);
    return base?.type === 'file' && known?.sha256 !== base.sha256;
  };

  /** Returns as many of the wanted files as there is room for. */
  const selectWanted = (open: OpenKeeper, covered: readonly CoveredFile[]): CoveredFile[] => {
    const wanted: CoveredFile[] = [];
    let bytes = [...open.files.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    for (const file of covered) {
      if (!isWanted(open, file)) continue;
      bytes += file.sizeBytes;
      if (bytes > BYTES_MAX || open.files.size + wanted.length >= FILES_MAX) break;
      wanted.push(file);
    }
    return wanted;
  };

  const listCovered = async (open: OpenKeeper): Promise<CoveredFile[]> =>
    open.layer.copies === null
      ? (await open.boxfs.listCovered(PLACES, COVERED_MAX)).files
      : listCopied(open);

  /** In batches: whatever ends this, those before are kept. */
  const keepFiles = async (open: OpenKeeper): Promise<void> => {
    for (const batch of toBatches(selectWanted(open, await listCovered(open))))
      await keepBatch(open, batch);
  };

  const keepBatch = async (open: OpenKeeper, wanted: readonly CoveredFile[]): Promise<void> => {
    const { boxfs, layer, files, bases, rejected } = open;
    const roots = { before: PLACES.lower, after: PLACES.lower };
    const paths = wanted.map(({ path }) => path);
    const texts = await boxfs.readMany(roots, { paths, bytesMax: TEXT_BYTES_MAX });
    // A file that a person has changed while it was read has another time now.
    const still = new Set((await listCovered(open)).map(signOf));
    const kept = wanted.flatMap((file, at): OriginalFile[] => {
      const text = texts[at]!.before;
      const base = bases.get(file.path);
      const isUsable =
        still.has(signOf(file)) &&
        text?.type === 'file' &&
        !text.isCut &&
        isText(text.bytes) &&
        (base === undefined || base?.sha256 === sha256(text.bytes));
      if (!isUsable) {
        rejected.add(signOf(file));
        return [];
      }
      const hash = sha256(text.bytes);
      write(layer.rootTaskId, hash, text.bytes);
      const { path, mode } = file;
      return [{ path, sha256: hash, mode: mode & 0o7777, sizeBytes: text.bytes.length }];
    });
    if (kept.length === 0) return;
    await store.addOriginals(layer, kept);
    for (const file of kept) files.set(file.path, file);
  };

  const scan = async (keeper: Keeper): Promise<void> => {
    const row = await layers.find(keeper.rootTaskId);
    if (row === undefined) return;
    const open = await openFor(keeper, row);
    await keepDirectories(open);
    await keepFiles(open);
  };

  const closeIfUnused = async (keeper: Keeper): Promise<void> => {
    if (keeper.holders > 0) return;
    keepers.delete(keeper.rootTaskId);
    await close(keeper);
  };

  const originals: LayerOriginals = {
    hold(rootTaskId) {
      const keeper = keeperFor(rootTaskId);
      keeper.holders++;
      return () => {
        keeper.holders--;
        void withTree(rootTaskId, () => closeIfUnused(keeper));
      };
    },
    keep(rootTaskId) {
      const keeper = keeperFor(rootTaskId);
      keeper.next ??= withTree(rootTaskId, async () => {
        keeper.next = undefined;
        const timer = clock.at(clock.nowMs() + KEEP_WAIT_MS, () => void close(keeper));
        try {
          await scan(keeper);
        } catch (error) {
          log.warn('keeping the originals of a layer failed', { task: rootTaskId, error });
        } finally {
          timer.cancel();
          await closeIfUnused(keeper);
        }
      });
      return keeper.next;
    },
    closeTree: (rootTaskId) =>
      withTree(rootTaskId, async () => {
        const keeper = keepers.get(rootTaskId);
        if (keeper !== undefined) await close(keeper);
      }),
    async find(layer) {
      return {
        files: await store.listOriginals(layer),
        read(file) {
          try {
            const bytes = readFileSync(join(dirOf(layer.rootTaskId), file.sha256));
            return sha256(bytes) === file.sha256 ? bytes : undefined;
          } catch {
            return undefined;
          }
        },
        directories: readDirectories(layer),
      };
    },
    async sweep(rootTaskId) {
      const row = await store.findLayer(rootTaskId);
      if (row === undefined) return;
      const kept = await store.findKept(rootTaskId);
      const began = [row.beganNs, ...(kept === undefined ? [] : [kept.beganNs])];
      await store.keepOriginalsOf(rootTaskId, began);
      const needed = await store.listOriginalHashes(rootTaskId);
      for (const ns of began) needed.add(`directories-${ns}`);
      const dir = dirOf(rootTaskId);
      for (const name of listNames(dir))
        if (!needed.has(name)) rmSync(join(dir, name), { force: true });
    },
    async stop() {
      await Promise.all([...keepers.keys()].map((rootTaskId) => originals.closeTree(rootTaskId)));
    },
  };
  return originals;
}

/** Changed files of a copy that the person has still as they were copied, or an apply left them. */
async function listCopied({ boxfs, bases }: OpenKeeper): Promise<CoveredFile[]> {
  const files: CoveredFile[] = [];
  for await (const { path, before, base } of boxfs.listChanges({ ...PLACES, isCopy: true })) {
    if (!isFile(before) || path.split('/').includes('.git')) continue;
    if (!bases.has(path) && base?.sha256 !== before!.sha256) continue;
    files.push({ path, ...before! });
    if (files.length >= COVERED_MAX) break;
  }
  return files;
}

function* toBatches(files: readonly CoveredFile[]): Generator<CoveredFile[]> {
  let batch: CoveredFile[] = [];
  let bytes = 0;
  for (const file of files) {
    if (batch.length > 0 && (batch.length >= BATCH.files || bytes + file.sizeBytes > BATCH.bytes)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(file);
    bytes += file.sizeBytes;
  }
  if (batch.length > 0) yield batch;
}

function listNames(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
