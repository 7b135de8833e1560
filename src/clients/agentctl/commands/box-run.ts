// agentctl box run: starts a person's program in the box of a run, and is its terminal.
import type { CreateProgram } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import { followProgram, toStatus } from '../box/follow-program.ts';
import { grantPrograms } from '../box/grant-programs.ts';
import { prepareProgram } from '../box/prepare-program.ts';
import { findTerminal, type Terminal } from '../box/terminal.ts';
import type { Args, Session } from '../command.ts';
import { createGranted, readWorkspace } from '../grants/granted-workspace.ts';

export async function boxRun(session: Session): Promise<number> {
  const runtime = session.runtime();
  const terminal = findTerminal(process);
  const body = buildBody(session, terminal);
  await grantPrograms(session, body.command.programs ?? []);
  const { task, run_id, token } = await createGranted(session, body, () =>
    runtime.call('agentd', 'createProgram', { body }),
  );
  const attaching = { params: { id: run_id }, body: { token } };
  const end = await followProgram(
    runtime.describe('sandboxd', 'attachProgram', attaching),
    terminal,
  );
  return toStatus(end, session, task.id);
}

function buildBody({ args, env }: Session, terminal: Terminal | undefined): CreateProgram {
  const workspace = readWorkspace(args);
  if (args.flag('layer') && workspace === undefined)
    throw fault('bad_usage', '--layer without a directory', {
      hint: 'Name it: --here, or --workspace DIR.',
    });
  const mode = args.flag('layer') ? 'layer' : 'live';
  const limits = readLimits(args);
  const hosts = args.list('allow-host');
  return {
    ...(args.text('agent') === undefined ? {} : { agent: args.text('agent') as never }),
    ...(workspace === undefined ? {} : { workspace, workspace_mode: mode }),
    ...(limits === undefined ? {} : { limits }),
    ...(args.text('name') === undefined ? {} : { name: args.text('name') as string }),
    ...(args.text('model') === undefined ? {} : { model: args.text('model') as string }),
    ...(hosts.length === 0 ? {} : { allow_hosts: [...hosts] }),
    command: {
      ...prepareProgram(args.positionals, env, args.text('profile')),
      ...(terminal === undefined ? {} : { terminal: terminal.size }),
    },
  };
}

function readLimits(args: Args): CreateProgram['limits'] {
  const [cost, time] = [args.number('budget'), args.number('max-time')];
  if (cost === undefined && time === undefined) return undefined;
  return {
    ...(cost === undefined ? {} : { max_cost_microusd: cost }),
    ...(time === undefined ? {} : { max_time_s: time }),
  };
}
