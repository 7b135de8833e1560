// Finds the kinds of changes that a person has to allow by name: reads what the decision
// (src/policy/apply-kinds.ts) needs to know of the rest of the tree, and of some texts.
import type { ApplyEntry, ApplyLookup } from '../../policy/apply-git.ts';
import {
  type ApplyChange,
  type ApplyTexts,
  findRefusedKinds,
  listLookups,
  makeApplyLookup,
  needsText,
} from '../../policy/apply-kinds.ts';
import { Fault } from '../../wire/errors.ts';
import type { LayerChange } from './adapters/boxfs-changes.ts';
import type { BoxfsClient } from './adapters/boxfs-client.ts';
import type { ChangeText } from './adapters/boxfs-texts.ts';
import { toSideView } from './layer-changes.ts';
import { readGitPlaces } from './layer-git-places.ts';
import { PLACES } from './layer-places.ts';

/** Longer texts are not known, which counts against a change. */
const TEXT_BYTES_MAX = 1_048_576;
const LINK_BYTES_MAX = 4_096;

type Boxfs = Pick<BoxfsClient, 'readMany' | 'perform'>;
const ROOTS = { before: PLACES.lower, after: PLACES.merged };

const toApplyChange = (change: LayerChange): ApplyChange => ({
  path: change.path,
  before: toSideView(change.before),
  after: toSideView(change.after),
  has_capabilities: change.hasCapabilities,
  is_closed: change.isClosed,
});

async function readEntry(boxfs: Boxfs, path: string): Promise<ApplyEntry | null | undefined> {
  try {
    const { kind } = await boxfs.perform({ op: 'stat', path });
    return { type: kind, link_target: null };
  } catch (error) {
    return error instanceof Fault && error.code === 'not_found' ? null : undefined;
  }
}

/** Reads what is at these paths, where the changes themselves do not tell. */
async function readLookups(
  boxfs: Boxfs,
  changes: readonly ApplyChange[],
  side: 'before' | 'after',
): Promise<ApplyLookup> {
  const own = new Set(changes.map(({ path }) => path));
  const paths = [...new Set(changes.flatMap(listLookups))].filter((path) => !own.has(path));
  const found = new Map<string, ApplyEntry | null>();
  for (const texts of await boxfs.readMany(ROOTS, { paths, bytesMax: LINK_BYTES_MAX })) {
    const text = texts[side];
    if (text !== null) {
      const target = text.type === 'link' ? text.bytes.toString() : null;
      found.set(texts.path, { type: text.type, link_target: target });
      continue;
    }
    const entry = await readEntry(boxfs, `${ROOTS[side]}/${texts.path}`);
    if (entry !== undefined) found.set(texts.path, entry);
  }
  return makeApplyLookup(changes, found);
}

async function readTexts(
  boxfs: Boxfs,
  changes: readonly ApplyChange[],
  merged: MergedTexts,
): Promise<ReadonlyMap<string, ApplyTexts>> {
  const paths = changes.filter(needsText).map(({ path }) => path);
  const texts = await boxfs.readMany(ROOTS, { paths, bytesMax: TEXT_BYTES_MAX });
  const isCut = (text: ChangeText | null): boolean => text?.isCut === true;
  const toText = (text: ChangeText | null): string | null => text?.bytes.toString() ?? null;
  return new Map(
    texts
      .filter(({ before, after }) => !isCut(before) && !isCut(after))
      .map(({ path, before, after }) => [
        path,
        { before: toText(before), after: merged.get(path)?.toString() ?? toText(after) },
      ]),
  );
}

type MergedTexts = ReadonlyMap<string, Buffer>;
export type KindsContext = {
  /**
   * The rest of the tree is as in the directory (`before`: these are all that will be applied) or
   * as agents see it (`after`: there are more changes).
   */
  side: 'before' | 'after';
  /** The directory. */
  hostPath: string;
  /** They are applied in place of what agents wrote. */
  merged: MergedTexts;
  hasOwnRepository?: boolean | undefined;
};

/** Returns the kinds of each change. */
export async function findChangeKinds(
  boxfs: Boxfs,
  changes: readonly LayerChange[],
  { side, hostPath, merged, hasOwnRepository = false }: KindsContext,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const all = changes.map(toApplyChange);
  const lookup = await readLookups(boxfs, all, side);
  const texts = await readTexts(boxfs, all, merged);
  const paths = all.map(({ path }) => path);
  const gitPlaces = await readGitPlaces(boxfs, paths, hostPath);
  const context = {
    lookup,
    texts: (path: string) => texts.get(path),
    gitPlaces,
    hasOwnRepository,
  };
  return new Map(all.map((change) => [change.path, findRefusedKinds(change, context)]));
}
