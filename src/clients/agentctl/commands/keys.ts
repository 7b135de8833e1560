// agentctl key create, list, show, rotate and revoke. A secret is printed once, and is never an
// argument.
import { fault } from '../../../wire/errors.ts';
import type { BudgetPeriod, BudgetView, KeyView } from '../../../wire/modeld.ts';
import type { Args, Session } from '../command.ts';
import type { Out } from '../out.ts';
import { readTime, readUsd } from '../read-amounts.ts';
import { formatMoney, formatRelative } from '../show/amounts.ts';
import { renderTable } from '../show/table.ts';

export async function create({ args, out, runtime }: Session): Promise<void> {
  const client = runtime();
  const expires = args.text('expires');
  const owner = args.text('owner');
  const models = readList(args, 'models');
  const budget = readBudget(args);
  const rpm = args.number('rpm');
  const body = {
    name: args.positionals[0]!,
    ...(owner === undefined ? {} : { owner }),
    ...(models === undefined ? {} : { models }),
    ...(budget === undefined ? {} : { budget }),
    ...(rpm === undefined ? {} : { requests_per_min: rpm }),
    ...(expires === undefined ? {} : { expires_at: readTime(expires, Date.now(), 'ahead') }),
  };
  const answer = await client.call('modeld', 'createKey', { body });
  const { key } = answer;
  const { port } = client.info;
  out.print(answer, () => renderSecret(key, port));
}

function renderSecret(key: KeyView & { secret: string }, port: number | null): string[] {
  return [
    key.secret,
    '',
    `This is key ${key.name}. It is shown only now: agentd stores its hash.`,
    port === null
      ? 'No port is open; open one with agentctl up --port N.'
      : `Use it at http://127.0.0.1:${port}/openai/v1 and http://127.0.0.1:${port}/anthropic.`,
  ];
}

export async function rotate({ args, out, runtime }: Session): Promise<void> {
  const client = runtime();
  const params = { name: args.positionals[0]! };
  const overlap = args.number('overlap');
  const body = overlap === undefined ? {} : { overlap_s: overlap };
  const answer = await client.call('modeld', 'rotateKey', { params, body });
  out.print(answer, () => [
    ...renderSecret(answer.key, client.info.port),
    overlap === undefined
      ? 'The old secret has ended, and its open streams were cut.'
      : 'The old secret works until then as well: agentctl key show.',
  ]);
}

/** 5/day, 20/month, or 100 in total. */
function readBudget(args: Args): { cost_limit_microusd: number; period: BudgetPeriod } | undefined {
  const text = args.text('budget');
  if (text === undefined) return undefined;
  const [, amount = '', period = 'total'] = /^([^/]+)(?:\/(day|month|total))?$/.exec(text) ?? [];
  const cost = readUsd(amount);
  if (cost !== undefined) return { cost_limit_microusd: cost, period: period as BudgetPeriod };
  throw fault('bad_usage', `--budget ${text} is not an amount of USD`, {
    hint: 'For example: --budget 5/day, --budget 20/month, or --budget 100 in total',
  });
}

function readList(args: Args, name: string): string[] | undefined {
  const text = args.text(name);
  if (text === undefined) return undefined;
  const items = text.split(',').map((item) => item.trim());
  if (items.every((item) => item !== '')) return items;
  throw fault('bad_usage', `--${name} ${text} has an empty name`, {
    hint: `For example: --${name} "gpt-*,claude-*"`,
  });
}

const HEADERS = [
  { title: 'NAME' },
  { title: 'STATUS' },
  { title: 'OWNER' },
  { title: 'MODELS', minWidth: 8 },
  { title: 'BUDGET' },
  { title: 'EXPIRES' },
  { title: 'STARTS WITH' },
] as const;

export async function list({ args, out, runtime }: Session): Promise<void> {
  const { keys: all } = await runtime().call('modeld', 'listKeys', {});
  const keys = args.flag('all') ? all : all.filter(({ status }) => status === 'active');
  out.print({ keys }, () =>
    keys.length === 0 ? ['No API keys: agentctl key create NAME'] : renderKeys(keys, out),
  );
}

function renderKeys(keys: readonly KeyView[], out: Out): string[] {
  const nowMs = Date.now();
  const rows = keys.map((key) => [
    key.name,
    key.status === 'active' ? key.status : ({ text: key.status, style: 'yellow' } as const),
    key.owner ?? '–',
    key.models?.join(', ') ?? 'all',
    key.budget === null ? '–' : formatBudget(key.budget),
    key.expires_at === null ? 'never' : formatRelative(key.expires_at, nowMs),
    key.secrets.map(({ prefix }) => prefix).join(', ') || '–',
  ]);
  return renderTable(HEADERS, rows, out);
}

const formatBudget = ({ cost_spent_microusd: spent, ...budget }: BudgetView): string => {
  const { cost_limit_microusd: limit, period } = budget;
  const most = limit === null ? 'no limit' : formatMoney(limit);
  return `${formatMoney(spent)} of ${most}${period === 'total' ? '' : `/${period}`}`;
};

export async function show({ args, out, runtime }: Session): Promise<void> {
  const params = { name: args.positionals[0]! };
  const answer = await runtime().call('modeld', 'getKey', { params });
  out.print(answer, () => renderKey(answer.key));
}

function renderKey(key: KeyView): string[] {
  const nowMs = Date.now();
  const at = (time: string | null) => (time === null ? 'never' : formatRelative(time, nowMs));
  const secrets = key.secrets.map(
    ({ prefix, ends_at }) => `${prefix}…${ends_at === null ? '' : ` (ends ${at(ends_at)})`}`,
  );
  const lines: [string, string][] = [
    ['status', key.status],
    ['scope', key.scopes.join(', ')],
    ['owner', key.owner ?? 'none'],
    ['models', key.models?.join(', ') ?? 'all'],
    ['budget', key.budget === null ? 'none' : formatBudget(key.budget)],
    ['requests', key.requests_per_min === null ? 'no limit' : `${key.requests_per_min} per minute`],
    ['created', `${at(key.created_at)} by ${key.created_by}`],
    ['expires', at(key.expires_at)],
    ...(key.revoked_at === null ? [] : [['revoked', at(key.revoked_at)] as [string, string]]),
    ['secrets', secrets.join(', ') || 'none'],
  ];
  return [key.name, ...lines.map(([name, value]) => `  ${name.padEnd(9)}${value}`)];
}

export async function revoke({ args, out, runtime }: Session): Promise<void> {
  const params = { name: args.positionals[0]! };
  const answer = await runtime().call('modeld', 'revokeKey', { params });
  out.print(answer, () => [`Revoked key ${answer.key.name}; its open streams were cut.`]);
}
