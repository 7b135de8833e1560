// agentctl model list.
import type { ModelView } from '../../../wire/modeld.ts';
import type { Session } from '../command.ts';
import { formatCount } from '../show/amounts.ts';
import { replaceControls } from '../show/plain.ts';
import { renderTable } from '../show/table.ts';
import { wrap } from '../show/width.ts';

const MODEL_HEADERS = [
  { title: 'MODEL' },
  { title: 'KIND' },
  { title: 'ROUTES TO', minWidth: 12 },
  { title: 'WINDOW', align: 'right' },
  { title: '$ IN/OUT', align: 'right' },
  { title: 'STATE', minWidth: 10 },
] as const;
const PROVIDER_HEADERS = [
  { title: 'PROVIDER' },
  { title: 'DIALECT' },
  { title: 'URL', minWidth: 12 },
  { title: 'KEY' },
  { title: 'LABELS', minWidth: 8 },
  { title: 'STATE', minWidth: 10 },
] as const;

const formatState = (available: boolean) =>
  available
    ? ({ text: 'available', style: 'green' } as const)
    : ({ text: 'unavailable', style: 'yellow' } as const);

export async function list({ out, runtime }: Session): Promise<void> {
  const answer = await runtime().call('modeld', 'listModels', {});
  out.print(answer, () => {
    const models = answer.models.map((model) => [
      model.name,
      model.kind,
      model.routes.map(({ provider, model: name }) => `${provider}/${name}`).join(', then '),
      formatCount(model.context_tokens),
      formatPrice(model.price),
      model.rehearsal
        ? ({ text: 'rehearsal, not a real model', style: 'yellow' } as const)
        : formatState(model.available),
    ]);
    const providers = answer.providers.map((provider) => [
      provider.name,
      provider.dialect,
      provider.base_url,
      provider.has_key ? 'yes' : 'no',
      provider.labels_allowed.join(', '),
      formatState(provider.available),
    ]);
    const table = [
      ...renderTable(MODEL_HEADERS, models, out),
      '',
      ...[
        ...renderDefault(answer.models),
        ...renderGuessedPrices(
          answer.models.filter(({ price }) => price.is_guess).map(({ name }) => name),
        ),
      ].flatMap((line) => wrap(line, out.columns)),
    ];
    if (providers.length === 0)
      return [...table, 'No provider is configured: agentctl model add --help'];
    const why = renderReasons([...answer.providers, ...answer.models], out);
    return [...table, '', ...renderTable(PROVIDER_HEADERS, providers, out), ...why];
  });
}

/** Lists each reason once, also if a provider and its models share it. */
function renderReasons(
  all: readonly { name: string; available: boolean; reason?: string | undefined }[],
  { columns, paint }: Session['out'],
): string[] {
  const reasons = new Map<string, string>();
  for (const { name, available, reason } of all)
    if (!available && reason !== undefined && !reasons.has(reason)) reasons.set(reason, name);
  const lines = [...reasons].flatMap(([reason, name]) =>
    wrap(`${name} is unavailable: ${replaceControls(reason)}`, columns),
  );
  return lines.length === 0 ? [] : ['', ...lines.map((line) => paint('yellow', line))];
}

/** USD per million tokens. */
const formatPrice = ({ input, output, is_guess }: ModelView['price']): string =>
  input === 0 && output === 0 ? 'free' : `${is_guess ? '~' : ''}${input}/${output}`;

function renderDefault(models: readonly ModelView[]): string[] {
  const chosen = models.find(({ is_default }) => is_default);
  return chosen === undefined
    ? []
    : [`${chosen.name} is "default", and the fallback for agents whose model is not offered.`];
}

export function renderGuessedPrices(names: readonly string[]): string[] {
  if (names.length === 0) return [];
  return [
    `~ ${names.join(', ')}: no known price, so charged at the rate of the most expensive model. Set it:`,
    '  agentctl model add PROVIDER --free, or --price-in USD --price-out USD',
  ];
}
