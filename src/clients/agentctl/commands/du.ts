// agentctl du: what takes how much on the disk, by kind and by agent, and what the retention would
// free.
import type { KindUsage, PruneReport } from '../../../wire/agentd.ts';
import type { Session } from '../command.ts';
import type { Out } from '../out.ts';
import { formatSize, pluralize } from '../show/amounts.ts';
import { describeDisk } from '../show/disk.ts';
import { renderTable, type TableColumn } from '../show/table.ts';
import { wrap } from '../show/width.ts';
import { followPrune } from './prune.ts';

const AGENTS_SHOWN_MAX = 5;
const COLUMNS: readonly TableColumn[] = [
  { title: 'KIND' },
  { title: 'SIZE', align: 'right' },
  { title: 'WOULD FREE', align: 'right' },
  { title: 'LIMIT', align: 'right' },
  { title: 'LARGEST', minWidth: 12 },
];

export async function du({ args, out, runtime }: Session): Promise<void> {
  const client = runtime();
  const { usage } = await client.call('agentd', 'getDiskUsage', {});
  const report = args.flag('quick') ? undefined : await dryRun(client, out);
  const kinds = usage.kinds.map((kind) => ({ ...kind, would_free_bytes: freed(report, kind) }));
  out.print({ usage: { ...usage, kinds } }, () => [
    ...renderTable(COLUMNS, kinds.map(toRow), out),
    ...describeUnapplied(report).flatMap((line) => wrap(line, out.columns)),
    ...wrap(`databases: ${usage.databases.map(describeDatabase).join(', ')}`, out.columns),
    ...wrap(`disk: ${describeDisk(usage.disk).text}`, out.columns),
  ]);
}

/** Undefined if the runtime stopped meanwhile. */
async function dryRun(
  client: ReturnType<Session['runtime']>,
  out: Out,
): Promise<PruneReport | undefined> {
  const body = { dry_run: true };
  const { prune: started } = await client.call('agentd', 'startPrune', { body });
  const report = await followPrune(client, out, started);
  return report.status === 'completed' ? report : undefined;
}

/** Kept although they are due: only a person can decide about their changes. */
function describeUnapplied(report: PruneReport | undefined): string[] {
  const counts = report?.kinds.map(
    ({ kept }) => kept.find(({ reason }) => reason === 'unapplied')?.count ?? 0,
  );
  const count = Math.max(0, ...(counts ?? []));
  if (count === 0) return [];
  const [trees, are] = [pluralize(count, 'task tree'), count === 1 ? 'is' : 'are'];
  return [
    `${trees} ${are} due, but kept: nobody has applied or discarded the changes (agentctl prune --dry-run)`,
  ];
}

const freed = (report: PruneReport | undefined, { kind }: KindUsage): number | null =>
  report?.kinds.find((one) => one.kind === kind)?.bytes ?? null;

function toRow(kind: KindUsage & { would_free_bytes: number | null }): string[] {
  const { agents, would_free_bytes: bytes } = kind;
  const largest = agents
    .slice(0, AGENTS_SHOWN_MAX)
    .map(({ agent, bytes: own }) => `${agent || 'people'} ${formatSize(own)}`);
  const more = agents.length - largest.length;
  return [
    kind.kind,
    formatSize(kind.bytes),
    bytes === null ? '' : formatSize(bytes),
    describeLimit(kind),
    [...largest, ...(more > 0 ? [`${more} more`] : [])].join(', '),
  ];
}

const DAY_S = 86_400;

function describeLimit({ age_s: age, size_max_bytes: size }: KindUsage): string {
  const days = age === null ? [] : [age % DAY_S === 0 ? `${age / DAY_S}d` : `${age / 3_600}h`];
  return [...days, ...(size === null ? [] : [formatSize(size)])].join(', ');
}

const describeDatabase = (one: { name: string; bytes: number; used_bytes: number }): string => {
  const free = one.bytes - one.used_bytes;
  return `${one.name} ${formatSize(one.bytes)}${free > 0 ? ` (${formatSize(free)} free)` : ''}`;
};
