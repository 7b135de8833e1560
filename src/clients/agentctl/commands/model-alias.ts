// agentctl model alias: lists the names that stand for models, or lets one stand for another.
import { fault } from '../../../wire/errors.ts';
import type { AliasView } from '../../../wire/modeld.ts';
import type { Session } from '../command.ts';
import type { Out } from '../out.ts';
import { renderTable } from '../show/table.ts';
import { wrap } from '../show/width.ts';

const HEADERS = [{ title: 'NAME' }, { title: 'STANDS FOR' }, { title: 'SET BY' }] as const;

export async function alias({ args, out, runtime }: Session): Promise<void> {
  const [pattern, model] = args.positionals;
  const removes = args.flag('remove');
  if (pattern === undefined) {
    if (removes) throw usageFault('--remove needs a name');
    const { aliases } = await runtime().call('modeld', 'listModels', {});
    return out.print({ aliases }, () => renderAliases(aliases, out));
  }
  if (removes === (model !== undefined))
    throw usageFault(removes ? '--remove takes no model' : 'the model is missing');
  const body = { pattern, model: model ?? null };
  const { aliases } = await runtime().call('modeld', 'setAlias', { body });
  out.print({ aliases }, () => renderAliases(aliases, out));
}

const usageFault = (message: string) =>
  fault('bad_usage', message, {
    hint: "For example: agentctl model alias 'claude-*' default, or agentctl model alias 'claude-*' --remove",
  });

function renderAliases(aliases: readonly AliasView[], out: Out): string[] {
  const rows = aliases.map(({ pattern, model, set_by }) => [pattern, model, set_by]);
  return [
    ...renderTable(HEADERS, rows, out),
    '',
    ...wrap(
      'A name that a provider offers always means that model. For a run, default is its own model; ' +
        'for people and keys, the built-in names need a default model, or that there is only one.',
      Math.min(out.columns, 100),
    ),
  ];
}
