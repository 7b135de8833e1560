// agentctl key create, list, show and revoke. A secret is printed once, and is never an argument.
import { fault } from '../../../wire/errors.ts';
import type { KeyView } from '../../../wire/modeld.ts';
import type { Args, Session } from '../command.ts';
import type { Out } from '../out.ts';
import { readTime } from '../read-amounts.ts';
import { formatRelative } from '../show/amounts.ts';
import { renderTable } from '../show/table.ts';

export async function create({ args, out, runtime }: Session): Promise<void> {
  const client = runtime();
  const expires = args.text('expires');
  const owner = args.text('owner');
  const models = readList(args, 'models');
  const body = {
    name: args.positionals[0]!,
    ...(owner === undefined ? {} : { owner }),
    ...(models === undefined ? {} : { models }),
    ...(expires === undefined ? {} : { expires_at: readTime(expires, Date.now(), 'ahead') }),
  };
  const answer = await client.call('modeld', 'createKey', { body });
  const { key } = answer;
  const { port } = client.info;
  out.print(answer, () => [
    key.secret,
    '',
    `This is key ${key.name}. It is shown only now: agentd stores its hash.`,
    port === null
      ? 'No port is open; open one with agentctl up --port N.'
      : `Use it at http://127.0.0.1:${port}/openai/v1 and http://127.0.0.1:${port}/anthropic.`,
  ]);
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
    key.expires_at === null ? 'never' : formatRelative(key.expires_at, nowMs),
    key.secrets.map(({ prefix }) => prefix).join(', ') || '–',
  ]);
  return renderTable(HEADERS, rows, out);
}

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
