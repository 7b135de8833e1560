// What a person wants to know when the runtime has started: what runs, which model answers, what
// is next.
import type { Session } from '../command.ts';
import { some } from '../show/amounts.ts';
import { problemLines } from '../show/problem.ts';
import { renderFields } from '../show/table.ts';
import { noAgentsText } from './agents.ts';
import { modelsText } from './which-model.ts';

/** `copies`: databases of an earlier version, as they were before this start changed them. */
export async function describeStart(
  { out, stateDir, runtime }: Session,
  copies: readonly string[],
): Promise<void> {
  const { info } = runtime();
  const [models, team] = await Promise.all([
    runtime().ask('modeld', 'listModels', {}),
    runtime().ask('agentd', 'listAgents', {}),
  ]);
  const rehearsal = models.models.every((model) => model.rehearsal);
  const names = team.agents.map(({ name }) => name);
  const document = {
    ...info,
    state_dir: stateDir,
    rehearsal,
    agents: names,
    problems: team.problems,
    copies,
  };
  out.give({ runtime: document }, () => [
    `${out.paint('green', 'The runtime is up')}: ${info.mode}, pid ${info.pid}`,
    ...renderFields(
      [
        ['state', stateDir],
        ['copies', copies.length === 0 ? undefined : copiesText(copies)],
        ['port', info.port === null ? undefined : `127.0.0.1:${info.port}`],
        ['model', modelsText(models)],
        [
          'agents',
          names.length === 0 ? 'none' : `${some(names.length, 'agent')}: ${names.join(', ')}`,
        ],
      ],
      out.paint,
      out.columns,
    ),
    ...team.problems.flatMap((problem) => problemLines(problem, out.paint)),
    '',
    names.length === 0
      ? noAgentsText(team.problems.length)
      : 'Next: agentctl task create "what you want done" --wait',
  ]);
}

function copiesText(copies: readonly string[]): string {
  return `an earlier version wrote this; as it was: ${copies.toSorted().join(', ')}`;
}
