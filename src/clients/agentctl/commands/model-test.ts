// agentctl model test: tries what a model, or the models of a provider, can do.
import { FAULTS } from '../../../wire/errors.ts';
import type { AbilityView, ModelTest } from '../../../wire/modeld.ts';
import type { Session } from '../command.ts';
import type { Out } from '../out.ts';
import { formatSpan } from '../show/amounts.ts';
import { replaceControls } from '../show/plain.ts';
import { renderTable } from '../show/table.ts';
import { wrap } from '../show/width.ts';

const DEADLINE_MS = 600_000;
const STYLES: Partial<Record<AbilityView['result'], 'green' | 'red' | 'yellow'>> = {
  yes: 'green',
  no: 'red',
  translated: 'yellow',
  estimated: 'yellow',
};

export async function test({ args, out, runtime }: Session): Promise<number> {
  const name = args.positionals[0]!;
  const body = { name };
  const answer = await runtime().call('modeld', 'testModel', { body }, { deadlineMs: DEADLINE_MS });
  const head = answer.ok ? out.paint('green', 'ok') : out.paint('red', 'failed');
  const who = answer.rehearsal ? 'the rehearsal, not a real model' : answer.provider;
  out.print({ test: answer }, () => [
    `${head}  ${name} by ${who} (${answer.model}) in ${formatSpan(answer.latency_ms)}`,
    ...replaceControls(answer.message).split('\n'),
    ...renderAbilities(answer, out),
  ]);
  return answer.ok ? 0 : FAULTS.provider_down.exit;
}

/** A column for each route: there are mostly one or two. */
function renderAbilities({ routes }: ModelTest, out: Out): string[] {
  const abilities = routes[0]?.abilities ?? [];
  const headers = [
    { title: 'CAN' },
    ...routes.map(({ provider, model }) => ({ title: `${provider}/${model}`, minWidth: 10 })),
  ];
  const rows = abilities.map(({ ability }, i) => [
    ability,
    ...routes.map((route) => {
      const { result } = route.abilities[i]!;
      const style = STYLES[result];
      return style === undefined ? result : { text: result, style };
    }),
  ]);
  const table = rows.length === 0 ? [] : ['', ...renderTable(headers, rows, out)];
  return [...table, ...renderReasons(routes, out)];
}

function renderReasons(routes: ModelTest['routes'], { columns }: Out): string[] {
  const lines = routes.flatMap(({ provider, model, ok, abilities }) =>
    abilities
      .filter(({ result }) => ok && (result === 'no' || result === 'untried'))
      .map(({ ability, message }) => `${provider}/${model}: ${ability}: ${message}`),
  );
  const wrapped = lines.flatMap((line) => wrap(replaceControls(line), columns));
  return wrapped.length === 0 ? [] : ['', ...wrapped];
}
