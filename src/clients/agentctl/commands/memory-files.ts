// agentctl memory import and export: JSON lines, and Markdown.
import { hash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fault } from '../../../wire/errors.ts';
import type { MemoryView, NewMemory } from '../../../wire/memoryd/records.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { Args, Session } from '../command.ts';
import { readInput } from '../input.ts';
import { readMarkdown, writeMarkdown } from '../memory-markdown.ts';
import { writeOut } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { pluralize } from '../show/amounts.ts';

/** Sent together; a batch is remembered as a whole or not at all. */
const BATCH = { lines: 500, chars: 4_000_000 };
const PAGE = 500;

export async function importMemories({ args, out, runtime }: Session): Promise<void> {
  const file = args.positionals[0]!;
  const memories = /\.(md|markdown)$/i.test(file)
    ? readMarkdownFile(file, args)
    : readJsonLines(file, args);
  const counts = { remembered: 0, proposed: 0 };
  for (const batch of cutBatches(memories)) {
    const body = { memories: batch };
    // The same lines again are answered from the record.
    const idempotent = `import-${hash('sha256', JSON.stringify(body))}`;
    const answer = await runtime().call('memoryd', 'remember', { body }, { idempotent });
    for (const { status } of answer.memories)
      counts[status === 'proposed' ? 'proposed' : 'remembered'] += 1;
  }
  out.print({ imported: counts }, () => [
    `Imported ${pluralize(counts.remembered, 'memory', 'memories')}.`,
    ...(counts.proposed === 0
      ? []
      : [
          `${pluralize(counts.proposed, 'more is', 'more are')} proposed: agentctl memory list --status proposed`,
        ]),
  ]);
}

type Defaults = Partial<Pick<NewMemory, 'scope' | 'class' | 'labels'>>;

function readDefaults(args: Args): Defaults {
  const scope = args.text('scope');
  const marks = args.list('mark') as Label[];
  return {
    class: (args.text('class') ?? 'semantic') as NewMemory['class'],
    ...(scope === undefined ? {} : { scope }),
    ...(marks.length === 0 ? {} : { labels: marks }),
  };
}

function readJsonLines(file: string, args: Args): NewMemory[] {
  const defaults = readDefaults(args);
  return readInput(file)
    .split('\n')
    .flatMap((line, i) =>
      line.trim() === '' ? [] : [{ ...defaults, ...parseLine(line, `${file}:${i + 1}`) }],
    ) as NewMemory[];
}

function parseLine(line: string, at: string): object {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // Reported below.
  }
  throw fault('bad_usage', `${at} is not a JSON object`, {
    hint: 'Each line is one memory: {"class":"semantic","scope":"project:app","text":"…"}',
  });
}

function readMarkdownFile(file: string, args: Args): NewMemory[] {
  const { scope, ...defaults } = readDefaults(args);
  if (scope === undefined)
    throw fault('bad_usage', `${file} names no scope`, { hint: 'Add one: --scope project:NAME' });
  return readMarkdown(readInput(file)).map(({ text, line }) => ({
    ...defaults,
    class: defaults.class!,
    scope,
    text,
    ref: `${basename(file)}:${line}`,
  }));
}

function cutBatches(memories: readonly NewMemory[]): NewMemory[][] {
  const batches: NewMemory[][] = [];
  let chars = BATCH.chars;
  for (const memory of memories) {
    const batch = batches.at(-1);
    chars += memory.text?.length ?? 0;
    if (batch !== undefined && batch.length < BATCH.lines && chars <= BATCH.chars)
      batch.push(memory);
    else {
      batches.push([memory]);
      chars = memory.text?.length ?? 0;
    }
  }
  return batches;
}

export async function exportMemories({ args, out, runtime }: Session): Promise<void> {
  const scopes = args.list('scope');
  const client = runtime();
  const found = new Map<string, MemoryView>();
  for (const scope of scopes.length === 0 ? [undefined] : scopes)
    for (const memory of await listActive(client, scope)) found.set(memory.id, memory);
  const memories = [...found.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  const text = args.flag('markdown')
    ? writeMarkdown(memories)
    : memories.map((memory) => `${JSON.stringify(toLine(memory))}\n`).join('');
  const file = args.text('out');
  if (file === undefined) return writeOut(text);
  try {
    writeFileSync(file, text, { mode: 0o600 });
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw fault('bad_usage', `${file} cannot be written (${code})`, { cause });
  }
  out.print({ exported: memories.length, file }, () => [
    `${pluralize(memories.length, 'memory', 'memories')} written to ${file}`,
  ]);
}

async function listActive(client: RuntimeClient, scope: string | undefined): Promise<MemoryView[]> {
  const memories: MemoryView[] = [];
  for (let cursor: string | undefined; ; ) {
    const query = { status: 'active' as const, limit: PAGE, scope, cursor };
    const page = await client.call('memoryd', 'listMemories', { query });
    memories.push(...page.memories);
    if (page.cursor === null) return memories;
    cursor = page.cursor;
  }
}

const MARKS: ReadonlySet<Label> = new Set<Label>(['outside', 'secret', 'personal']);

/** The marks come along, so that an import elsewhere does not wash them off. */
function toLine(memory: MemoryView): NewMemory {
  const marks = memory.labels.filter((label) => MARKS.has(label));
  const { occurred_at, speaker, ref, thread, seq, caption, valid_from, valid_to } = memory;
  const about = { occurred_at, speaker, ref, thread, seq, caption, valid_from, valid_to };
  const { importance, expires_at } = memory;
  const given = Object.entries({ ...about, importance, expires_at }).filter(
    ([, value]) => value !== null,
  );
  return {
    class: memory.class,
    scope: memory.scope,
    text: memory.text ?? '',
    ...Object.fromEntries(given),
    ...(marks.length === 0 ? {} : { labels: marks }),
  };
}
