// agentctl box run: starts a person's program in the box of a run, and is its terminal.
import type { CreateProgram } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { CommandEnd } from '../../../wire/sandboxd.ts';
import { grantPrograms } from '../box/grant-programs.ts';
import { prepareProgram } from '../box/prepare-program.ts';
import { attachProgram } from '../box/program-client.ts';
import { findTerminal, type Terminal } from '../box/terminal.ts';
import type { Args, Session } from '../command.ts';
import { replaceControls } from '../show/plain.ts';
import { createGranted, readWorkspace } from './task-create.ts';

const FORWARDED: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];
/** A shell treats a command that one of these ended differently from one that exited. */
const REPEATED: readonly number[] = [1, 2, 15];
const SIGNAL_STATUS = 128;

export async function boxRun(session: Session): Promise<number> {
  const runtime = session.runtime();
  const terminal = findTerminal(process);
  const body = buildBody(session, terminal);
  await grantPrograms(session, body.command.programs ?? []);
  const { task, run_id, token } = await createGranted(session, body, () =>
    runtime.call('agentd', 'createProgram', { body }),
  );
  const attaching = { params: { id: run_id }, body: { token } };
  const program = await attachProgram(
    runtime.describe('sandboxd', 'attachProgram', attaching),
    process,
  );
  const listeners = FORWARDED.map((name) => [name, () => program.signal(name)] as const);
  for (const [name, forward] of listeners) process.on(name, forward);
  const giveBack = terminal?.lend(program);
  try {
    const end = await program.ended.finally(giveBack);
    return toStatus(end, session, task.id);
  } finally {
    for (const [name, forward] of listeners) process.removeListener(name, forward);
  }
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

/** As if the program had run outside. */
function toStatus(end: CommandEnd, { out }: Session, taskId: string): number {
  const { exit_code: code, signal, ended_by: endedBy, note } = end;
  if (endedBy !== null) {
    out.info(`agentctl: the program was ended: ${describeEnd(endedBy)}`);
    out.info(`See: agentctl task show ${taskId}`);
  }
  if (note !== undefined) out.info(`agentctl: ${replaceControls(note)}`);
  if (code !== null) return code;
  if (signal === null) return SIGNAL_STATUS + 9;
  if (endedBy === null && REPEATED.includes(signal)) endBySignal(signal);
  return SIGNAL_STATUS + signal;
}

const ENDS: Readonly<Record<string, string>> = {
  box: 'its box was closed, because its task ended or a rule became narrower',
  halt: 'the runtime is halted',
  memory: 'it used more memory than its box may',
  pids: 'it started more processes than its box may',
  disk: 'it wrote more than its box may',
  wall: 'its time is up',
  seal: 'a protected file of its directory was replaced from outside',
};

const describeEnd = (endedBy: string): string => ENDS[endedBy] ?? endedBy;

/** So that the shell sees what it would have seen of the program itself. */
function endBySignal(signal: number): void {
  for (const name of FORWARDED) process.removeAllListeners(name);
  process.kill(process.pid, signal);
}
