// agentctl model usage.
import type { Usage, UsageBy, UsageGroup, UsageRow } from '../../../wire/modeld.ts';
import type { Session } from '../command.ts';
import { readTime } from '../read-amounts.ts';
import { formatCount, formatMoney, pluralize, startOfDay } from '../show/amounts.ts';
import { renderTable, type TableOptions } from '../show/table.ts';
import { renderGuessedPrices } from './models.ts';

const AMOUNT_HEADERS = [
  { title: 'CALLS', align: 'right' },
  { title: 'IN', align: 'right' },
  { title: 'CACHED', align: 'right' },
  { title: 'OUT', align: 'right' },
  { title: 'COST', align: 'right' },
] as const;
const UNKNOWN = '(unknown)';

export async function usage({ args, out, runtime }: Session): Promise<void> {
  const now = Date.now();
  const sinceOption = args.text('since');
  const since = sinceOption === undefined ? startOfDay(now) : readTime(sinceOption, now, 'ago');
  const by = args.text('by') as UsageBy | undefined;
  const query = { agent: args.text('agent'), task_id: args.text('task'), since, by };
  const answer = await runtime().call('modeld', 'usage', { query });
  out.print({ ...answer, since }, () => {
    const { total, rows, groups = [], groups_after: after } = answer;
    const when = sinceOption === undefined ? 'today (UTC)' : `since ${since}`;
    const sum = `${pluralize(total.calls, 'call')}, ${formatMoney(total.cost_microusd)} ${when}`;
    if (rows.length === 0) return [sum];
    const guessed = rows.filter((row) => row.cost_is_guess).map(({ model }) => model);
    return [
      ...(by === undefined ? renderRows(rows, out) : renderGroups(by, groups, out)),
      '',
      sum,
      ...(after === undefined
        ? []
        : [`By task, only the newest calls are counted: after ${after}`]),
      ...(groups.some((group) => group.is_unknown)
        ? [`${UNKNOWN}: before an upgrade, which had no sums by key and person`]
        : []),
      ...renderGuessedPrices([...new Set(guessed)]),
    ];
  });
}

function renderRows(rows: readonly UsageRow[], out: TableOptions): string[] {
  const names = ['AGENT', 'MODEL', 'PROVIDER'].map((title) => ({ title, minWidth: 8 }));
  const cells = rows.map((row) => [row.agent || '–', row.model, row.provider, ...amountsOf(row)]);
  return renderTable([...names, ...AMOUNT_HEADERS], cells, out);
}

function renderGroups(by: UsageBy, groups: readonly UsageGroup[], out: TableOptions): string[] {
  const cells = groups.map((group) => [
    group.name ?? (group.is_unknown ? UNKNOWN : '–'),
    ...amountsOf(group),
  ]);
  return renderTable([{ title: by.toUpperCase(), minWidth: 8 }, ...AMOUNT_HEADERS], cells, out);
}

function amountsOf(row: {
  calls: number;
  usage: Usage;
  cost_microusd: number;
  cost_is_guess: boolean;
}): string[] {
  const cached = row.usage.cache_read_tokens + row.usage.cache_write_tokens;
  return [
    formatCount(row.calls),
    formatCount(row.usage.input_tokens),
    formatCount(cached),
    formatCount(row.usage.output_tokens),
    `${row.cost_is_guess ? '~' : ''}${formatMoney(row.cost_microusd)}`,
  ];
}
