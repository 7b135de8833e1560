// Renders one change of a file in git's format, exactly: git apply and patch make the second side
// of the first. Contents are strings with one character for each byte.
import { compareLines, type DiffLine, findHunks } from '../../../platform/line-diff.ts';
import { quotePath } from './quote-path.ts';

/** One side of a file or link; the target of a link is its content. */
export type FileSide = { gitMode: string; content: string };
export type ChangedFile = {
  path: string;
  before: FileSide | null;
  after: FileSide | null;
  /** A side is not whole, so its lines cannot be compared. */
  isCut: boolean;
};

export type DiffRole = 'meta' | 'hunk' | 'old' | 'new' | 'same';
/** Without the newline at its end. */
export type GitDiffLine = { role: DiffRole; text: string };
export type LineCounts = { added: number; deleted: number };

export const LINK_MODE = '120000';

/** Git knows only whether the owner may execute a file. */
export const toGitMode = (type: 'file' | 'link', mode: number): string =>
  type === 'link' ? LINK_MODE : (mode & 0o100) === 0 ? '100644' : '100755';

const BINARY_BYTES = 8_000;
const isBinary = (side: FileSide | null): boolean =>
  side?.content.slice(0, BINARY_BYTES).includes('\0') === true;

/** True if git would not compare its lines either. */
export const hasNoLines = ({ before, after, isCut }: ChangedFile): boolean =>
  isCut || isBinary(before) || isBinary(after);

/** Lines keep their newline, so that a missing one at the end is a difference. */
const splitLines = (content: string): string[] => (content === '' ? [] : content.split(/(?<=\n)/));

/** A file that became a link, or the reverse, is removed and made anew. */
export function splitTypeChange(change: ChangedFile): ChangedFile[] {
  const { before, after } = change;
  if (before === null || after === null) return [change];
  if ((before.gitMode === LINK_MODE) === (after.gitMode === LINK_MODE)) return [change];
  return [
    { ...change, after: null },
    { ...change, before: null },
  ];
}

const compare = ({ before, after }: ChangedFile): DiffLine[] =>
  compareLines(splitLines(before?.content ?? ''), splitLines(after?.content ?? ''));

export function countLines(change: ChangedFile): LineCounts {
  const lines = hasNoLines(change) ? [] : compare(change);
  const count = (kind: DiffLine['kind']) => lines.filter((line) => line.kind === kind).length;
  return { added: count('+'), deleted: count('-') };
}

/** Returns nothing if git would see no difference. */
export function renderFile(change: ChangedFile): GitDiffLine[] {
  const { path, before, after } = change;
  const isSame = before?.content === after?.content && !change.isCut;
  if (isSame && before?.gitMode === after?.gitMode) return [];
  const [from, to] = [quotePath(path, 'a/'), quotePath(path, 'b/')];
  const meta = [`diff --git ${from} ${to}`, ...renderModes(before, after)];
  if (isSame && before !== null) return meta.map(toMeta);
  meta.push(renderIndex(change));
  const names = [before === null ? DEV_NULL : from, after === null ? DEV_NULL : to] as const;
  if (hasNoLines(change))
    return [...meta, `Binary files ${names[0]} and ${names[1]} differ`].map(toMeta);
  const hunks = findHunks(compare(change));
  // An empty file that was added or deleted.
  if (hunks.length === 0) return meta.map(toMeta);
  meta.push(`--- ${endName(names[0])}`, `+++ ${endName(names[1])}`);
  const body = hunks.flatMap(({ oldStart, oldCount, newStart, newCount, lines }) => [
    {
      role: 'hunk' as const,
      text: `@@ -${formatRange(oldStart, oldCount)} +${formatRange(newStart, newCount)} @@`,
    },
    ...lines.flatMap(renderLine),
  ]);
  return [...meta.map(toMeta), ...body];
}

const DEV_NULL = '/dev/null';

/** Patch takes a name up to the first white space, unless a tab follows. */
const endName = (name: string): string =>
  /\s/.test(name) && !name.startsWith('"') ? `${name}\t` : name;

const toMeta = (text: string): GitDiffLine => ({ role: 'meta', text });

function renderModes(before: FileSide | null, after: FileSide | null): string[] {
  if (before === null) return [`new file mode ${after!.gitMode}`];
  if (after === null) return [`deleted file mode ${before.gitMode}`];
  if (before.gitMode === after.gitMode) return [];
  return [`old mode ${before.gitMode}`, `new mode ${after.gitMode}`];
}

const formatRange = (start: number, count: number): string =>
  count === 1 ? String(start) : `${start},${count}`;

const ROLES = { ' ': 'same', '-': 'old', '+': 'new' } as const;

function renderLine({ kind, text }: DiffLine): GitDiffLine[] {
  const role = ROLES[kind];
  if (text.endsWith('\n')) return [{ role, text: kind + text.slice(0, -1) }];
  return [
    { role, text: kind + text },
    { role: 'same', text: '\\ No newline at end of file' },
  ];
}

function renderIndex({ before, after, isCut }: ChangedFile): string {
  const mode = before !== null && before.gitMode === after?.gitMode ? ` ${before.gitMode}` : '';
  if (isCut) return `index ${UNKNOWN}..${UNKNOWN}${mode}`;
  return `index ${hashBlob(before)}..${hashBlob(after)}${mode}`;
}

const UNKNOWN = '0'.repeat(7);

/** The name that git has for this content. */
function hashBlob(side: FileSide | null): string {
  if (side === null) return UNKNOWN;
  const bytes = Buffer.from(side.content, 'latin1');
  const { createHash } = process.getBuiltinModule('node:crypto');
  const hash = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes);
  return hash.digest('hex').slice(0, UNKNOWN.length);
}
