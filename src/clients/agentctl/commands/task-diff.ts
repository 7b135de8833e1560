// agentctl task diff: shows what a task tree changed in its layer, in git's format.

import { escapeHidden } from '../../../platform/text/hidden.ts';
import { fault } from '../../../wire/errors.ts';
import type { Args, Session } from '../command.ts';
import {
  type ChangedFile,
  countLines,
  type DiffRole,
  type GitDiffLine,
  hasNoLines,
  renderFile,
  splitTypeChange,
} from '../diff/git-diff.ts';
import { renderHeader } from '../diff/header.ts';
import { quotePath } from '../diff/quote-path.ts';
import {
  isLeftOut,
  readChangedFiles,
  readChanges,
  selectShown,
  toChangedPaths,
} from '../diff/read-changes.ts';
import { renderStat, type StatRow } from '../diff/stat.ts';
import { type Out, type Style, writeOut } from '../out.ts';

export async function diff({ args, out, runtime }: Session): Promise<void> {
  const how = readForm(args);
  const [id, ...words] = args.positionals as [string, ...string[]];
  const tree = await readChanges(runtime(), id);
  const shown = selectShown(tree.changes, toChangedPaths(words, tree));
  if (out.json && how !== 'patch') {
    out.printJson({ diff: { ...tree, changes: shown } });
    return;
  }
  const compared = shown.filter((change) => !isLeftOut(change, tree.refusals));
  const files = readChangedFiles(runtime(), id, compared);
  if (out.json) {
    const patches = new Map<string, string>();
    for await (const file of files) patches.set(file.path, toText(renderChange(file)));
    const changes = shown.map((change) => ({ ...change, patch: patches.get(change.path) ?? null }));
    out.printJson({ diff: { ...tree, changes } });
    return;
  }
  if (shown.length === 0) {
    const { layer_task_id: own, root_task_id: root, path } = tree;
    const target = own === undefined ? quotePath(path) : 'the layer of its parent';
    out.info(`${own ?? root} has no changes for ${target}.`);
    return;
  }
  const header = renderHeader(tree, shown, out.paint);
  if (how === 'name-only') {
    // For scripts, standard output has nothing but names.
    for (const line of header) out.info(line);
    for (const { path } of shown) out.writeLine(quotePath(path));
    return;
  }
  for (const line of header) out.writeLine(line);
  out.writeLine();
  if (how === 'stat') return printStat(files, out);
  for await (const file of files) printLines(renderChange(file), out);
}

type Form = 'patch' | 'stat' | 'name-only';

function readForm(args: Args): Form {
  if (args.flag('stat') && args.flag('name-only'))
    throw fault('bad_usage', '--stat and --name-only are two forms', { hint: 'Use one of them.' });
  return args.flag('stat') ? 'stat' : args.flag('name-only') ? 'name-only' : 'patch';
}

const renderChange = (file: ChangedFile): GitDiffLine[] =>
  splitTypeChange(file).flatMap(renderFile);

/** With invalid UTF-8 replaced. */
const toText = (lines: readonly GitDiffLine[]): string =>
  Buffer.from(lines.map(({ text }) => `${text}\n`).join(''), 'latin1').toString();

const STYLES: Readonly<Record<DiffRole, Style | undefined>> = {
  meta: 'bold',
  hunk: 'cyan',
  old: 'red',
  new: 'green',
  same: undefined,
};

/** Exact bytes, so that git and patch accept them; on a terminal nothing that it would obey. */
function printLines(lines: readonly GitDiffLine[], out: Out): void {
  if (!out.terminal) {
    writeOut(Buffer.from(lines.map(({ text }) => `${text}\n`).join(''), 'latin1'));
    return;
  }
  for (const { role, text } of lines) {
    const safe = Buffer.from(text, 'latin1').toString().split('\t').map(escapeHidden).join('\t');
    const style = STYLES[role];
    out.writeLine(style === undefined ? safe : out.paint(style, safe));
  }
}

const COLUMNS_DEFAULT = 80;

async function printStat(files: AsyncIterable<ChangedFile>, out: Out): Promise<void> {
  const rows: StatRow[] = [];
  for await (const file of files) {
    const name = quotePath(file.path);
    if (hasNoLines(file))
      rows.push({
        name,
        bytesBefore: file.before?.content.length ?? 0,
        bytesAfter: file.after?.content.length ?? 0,
      });
    else if (renderFile(file).length > 0) rows.push({ name, ...countLines(file) });
  }
  const columns = out.terminal ? out.columns : COLUMNS_DEFAULT;
  for (const line of renderStat(rows, columns, out.paint)) out.writeLine(line);
}
