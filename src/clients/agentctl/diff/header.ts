// Renders what a person must know before reading a diff: what is deleted or replaced, whose modes
// change, what an apply would refuse, and why. Every path is named; git and patch skip these lines.
import { escapeHidden } from '../../../platform/text/hidden.ts';
import type { TreeChanges } from '../../../wire/agentd.ts';
import type { LayerChangeView } from '../../../wire/sandboxd/layers.ts';
import type { Paint } from '../out.ts';
import { pluralize } from '../show/amounts.ts';
import { quotePath } from './quote-path.ts';
import { isLeftOut } from './read-changes.ts';

type Section = { title: string; rows: readonly string[]; isGrave?: true };

const formatMode = (mode: number): string => mode.toString(8).padStart(4, '0');

const CONFLICTS = {
  changed: 'you have changed it in the directory, too',
  overlaps: 'you have changed the same lines in the directory',
  removed: 'you have removed it from the directory',
  appeared: 'you have made it in the directory, too',
  moved: 'another directory is in place of the one that it was in',
} as const;

const KINDS = ['added', 'modified', 'deleted', 'replaced', 'mode'] as const;
const KIND_WORDS = { mode: 'with another mode' } as const;

export function countByKind(counts: Readonly<Record<(typeof KINDS)[number], number>>): string {
  const parts = KINDS.filter((kind) => counts[kind] > 0).map(
    (kind) => `${counts[kind]} ${kind === 'mode' ? KIND_WORDS.mode : kind}`,
  );
  return parts.join(', ');
}

export function renderHeader(
  tree: TreeChanges,
  all: readonly LayerChangeView[],
  paint: Paint,
): string[] {
  const shown = all.filter((change) => !isLeftOut(change, tree.refusals));
  const leftOut = all.filter((change) => isLeftOut(change, tree.refusals));
  const { root_task_id: root, layer_task_id: own, path: dir, labels } = tree;
  const target = own === undefined ? quotePath(dir) : 'the layer of its parent';
  const counts = { added: 0, modified: 0, deleted: 0, replaced: 0, mode: 0 };
  for (const { kind } of shown) counts[kind]++;
  const lines = [
    `${pluralize(shown.length, 'change')} of ${own ?? root} for ${target}: ${countByKind(counts)}`,
  ];
  if (labels.length > 0)
    lines.push(
      `The agents read text marked ${labels.join(', ')}; applying marks ${own === undefined ? 'the directory' : 'that layer'}, too.`,
    );
  for (const { title, rows, isGrave } of listSections(tree, shown)) {
    lines.push(isGrave === true ? paint('yellow', title) : title);
    lines.push(...rows.map((row) => `  ${row}`));
  }
  if (leftOut.length > 0)
    lines.push(
      'Left in the layer, whatever is applied:',
      ...listLeftOut(leftOut, tree.refusals).map((row) => `  ${row}`),
    );
  return lines.map((line) => `# ${line}`);
}

function listSections(tree: TreeChanges, shown: readonly LayerChangeView[]): Section[] {
  const { refusals } = tree;
  const id = tree.layer_task_id ?? tree.root_task_id;
  const sections: Section[] = [
    { title: 'Deleted:', rows: rowsOf(shown, isDeleted, describeDeleted), isGrave: true },
    {
      title: 'Directories replaced:',
      rows: rowsOf(shown, isReplacedDir, describeReplaced),
      isGrave: true,
    },
    { title: 'Modes changed:', rows: rowsOf(shown, hasOtherMode, describeMode) },
    {
      title: `Refused unless allowed by name (agentctl task apply ${id} --allow KIND):`,
      rows: listRefused(shown, refusals),
      isGrave: true,
    },
    {
      title: 'Merged with what you have changed meanwhile:',
      rows: rowsOf(
        shown,
        ({ merged }) => merged,
        () => '',
      ),
    },
    {
      title: `In conflict, so not applied (unless agentctl task apply ${id} PATH --overwrite):`,
      rows: shown.flatMap(({ path, conflict }) =>
        conflict === null ? [] : [`${quotePath(path)}  ${CONFLICTS[conflict]}`],
      ),
      isGrave: true,
    },
    { title: 'Not in the diff below:', rows: rowsOf(shown, isUnseen, describeUnseen) },
  ];
  return sections.filter(({ rows }) => rows.length > 0);
}

const listRefused = (
  changes: readonly LayerChangeView[],
  refusals: TreeChanges['refusals'],
): string[] =>
  changes.flatMap(({ path, refused }) =>
    refused.map(
      (kind) => `${quotePath(path)}  ${kind}: ${escapeHidden(refusals[kind]?.reason ?? '')}`,
    ),
  );

/** Counts what stays in the layer by kind: it is made again, or comes over in another way. */
function listLeftOut(
  changes: readonly LayerChangeView[],
  refusals: TreeChanges['refusals'],
): string[] {
  const counts = new Map<string, number>();
  for (const { refused } of changes) {
    const kind = refused.find((one) => (refusals[one]?.handling ?? 'refused') !== 'refused')!;
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return [...counts].map(
    ([kind, count]) =>
      `${pluralize(count, 'change')}  ${kind}: ${escapeHidden(refusals[kind]?.reason ?? '')}`,
  );
}

const rowsOf = (
  changes: readonly LayerChangeView[],
  includes: (change: LayerChangeView) => boolean,
  describe: (change: LayerChangeView) => string,
): string[] => changes.filter(includes).map((change) => quotePath(change.path) + describe(change));

const isDeleted = ({ after }: LayerChangeView): boolean => after === null;
const describeDeleted = ({ before }: LayerChangeView): string =>
  before?.type === 'directory' ? '/' : '';

const isReplacedDir = ({ kind, before }: LayerChangeView): boolean =>
  kind === 'replaced' && before?.type === 'directory';
const describeReplaced = ({ after }: LayerChangeView): string =>
  after?.type === 'link'
    ? `  by a link to ${quotePath(after.link_target ?? '')}`
    : `  by a ${after?.type === 'directory' ? 'new directory' : (after?.type ?? 'file')}`;

const hasOtherMode = ({ before, after }: LayerChangeView): boolean =>
  before !== null &&
  after !== null &&
  before.type === after.type &&
  before.type !== 'link' &&
  before.mode !== after.mode;
const describeMode = ({ before, after }: LayerChangeView): string =>
  `  ${formatMode(before!.mode)} -> ${formatMode(after!.mode)}`;

/** Git has no form for these: directories, devices. */
const isUnseen = ({ before, after }: LayerChangeView): boolean =>
  [before, after].every(
    (side) => side === null || side.type === 'directory' || side.type === 'other',
  ) &&
  after !== null &&
  (before === null || after.type === 'other');
const describeUnseen = ({ after }: LayerChangeView): string =>
  after?.type === 'directory'
    ? `/  a new directory, ${formatMode(after.mode)}`
    : '  neither file, directory nor link';
