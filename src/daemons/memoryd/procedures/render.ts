// Words the file of a procedure and its commits, and names the file. Pure.
import { toTimestamp } from '../../../platform/clock.ts';
import type { EntryRun } from '../journal/entry.ts';
import { readAbout, readLabels } from '../rules/view.ts';
import type { ProcedureChangeRow, VersionRow } from '../store/schema.ts';

export const README = `# Procedures

What memoryd remembers about how things are done (class \`procedural\`), one file each, below the
scope that it belongs to. The history has a commit for each change: \`git log -p\`.

memoryd writes these files from its journal and never reads them: what is changed here is
overwritten and has no effect. To change a procedure: agentctl memory edit ID "TEXT".
`;

const SLUG_CHARS_MAX = 48;
const ID_CHARS = 6;

/** After the first words that the memory had, so that an edit does not move it. */
export function pathOf(scope: string, id: string, firstText: string): string {
  const words = firstText.slice(0, 400).split('\n', 1)[0]!.normalize('NFKD').toLowerCase();
  const slug = (words.match(/[a-z0-9]+/g) ?? ['procedure']).join('-').slice(0, SLUG_CHARS_MAX);
  return [...scope.split(/[:/]/).map(toDirName), `${slug}-${id.slice(-ID_CHARS)}.md`].join('/');
}

/** Neither `.git` nor the name of a file. */
const toDirName = (part: string): string => part.replace(/^\./, '%2E').replace(/\.md$/, '%2Emd');

export function renderFile(scope: string, row: VersionRow, text: string): string {
  const { occurred_at, speaker, ref, valid_from, valid_to } = readAbout(row);
  const facts = {
    id: row.memory_id,
    version: Number(row.version),
    scope,
    labels: readLabels(row),
    by: row.author,
    recorded_at: toTimestamp(Number(row.recorded_ms)),
    ...(JSON.parse(row.run ?? '{}') as Partial<EntryRun>),
    occurred_at,
    speaker,
    ref,
    valid_from,
    valid_to,
  };
  const lines = Object.entries(facts)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  return `---\n${lines.join('\n')}\n---\n\n${text}${text.endsWith('\n') ? '' : '\n'}`;
}

/** Written by memoryd about a change: no text of the memory. */
export function renderMessage(
  change: ProcedureChangeRow,
  { scope, labels }: { scope: string; labels: readonly string[] },
): string {
  const { memory_id: id, version, did, author, number } = change;
  const run = JSON.parse(change.run ?? '{}') as Partial<EntryRun>;
  return [
    `${did} ${id} version ${version}`,
    '',
    `Scope: ${scope}`,
    `Labels: ${labels.join(' ')}`,
    `By: ${author}`,
    ...Object.entries(run).map(([name, value]) => `${name}: ${value}`),
    `Change: ${number}`,
  ].join('\n');
}

export const toAuthor = (principal: string): { name: string; email: string } => {
  const name = principal.replace(/[^\w.:@-]/g, '_');
  return { name, email: `${name.slice(name.indexOf(':') + 1)}@agentd.invalid` };
};
