// agentctl exec: a further command in the box of a program that is running.
import { fault } from '../../../wire/errors.ts';
import { findBoxTask } from '../box/find-box.ts';
import { followProgram, toStatus } from '../box/follow-program.ts';
import { pickTerminal } from '../box/prepare-program.ts';
import { findTerminal } from '../box/terminal.ts';
import type { Session } from '../command.ts';

export async function exec(session: Session): Promise<number> {
  const runtime = session.runtime();
  const [name, ...argv] = session.args.positionals;
  const task = await findBoxTask(runtime, name!);
  const { runs } = await runtime.call('agentd', 'listRuns', {
    query: { task_id: task.id, limit: 1 },
  });
  const run = runs[0];
  if (task.ended_at !== null || run === undefined)
    throw fault('conflict', `the program of ${task.id} has ended`, {
      hint: 'See which are running: agentctl box list.',
    });
  const terminal = findTerminal(process);
  const request = runtime.describe('sandboxd', 'execProgram', {
    params: { id: run.id },
    body: {
      argv,
      env: pickTerminal(session.env),
      ...(terminal === undefined ? {} : { terminal: terminal.size }),
    },
  });
  return toStatus(await followProgram(request, terminal), session, task.id);
}
