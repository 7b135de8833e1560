// agentctl task replay: the run again, from recorded answers only.
import { FAULTS } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { some } from '../show/amounts.ts';
import { oneLine } from '../show/plain.ts';

export async function replay({ args, out, runtime }: Session): Promise<number> {
  const request = { params: { id: args.words[0]! } };
  const answer = await runtime().ask('agentd', 'replayTask', request, { deadlineMs: 120_000 });
  const { same, calls, differences, result_same, run_id } = answer.replay;
  out.give(answer, () => {
    if (same) {
      return [`${out.paint('green', 'same')}  ${run_id}: ${some(calls, 'call')} and the result`];
    }
    const found = `${some(differences.length, 'difference')} in ${some(calls, 'call')}`;
    return [
      `${out.paint('red', 'differs')}  ${run_id}: ${found}`,
      ...differences.flatMap(({ at, expected, got }) => [
        `  at ${oneLine(at)}`,
        `    recorded  ${oneLine(expected)}`,
        `    now       ${oneLine(got)}`,
      ]),
      result_same ? 'The result is the same.' : 'The result is another.',
    ];
  });
  return same ? 0 : FAULTS.replay_differs.exit;
}
