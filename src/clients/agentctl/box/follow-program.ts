// Is the terminal of a program in a box until it ends: passes its streams and signals on, and ends
// agentctl as the program ended.
import type { CommandEnd } from '../../../wire/sandboxd.ts';
import type { Session } from '../command.ts';
import { replaceControls } from '../show/plain.ts';
import { attachProgram } from './program-client.ts';
import type { Terminal } from './terminal.ts';

const FORWARDED: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];
/** A shell treats a command that one of these ended differently from one that exited. */
const REPEATED: readonly number[] = [1, 2, 15];
const SIGNAL_STATUS = 128;

export async function followProgram(
  request: Parameters<typeof attachProgram>[0],
  terminal: Terminal | undefined,
): Promise<CommandEnd> {
  const program = await attachProgram(request, process);
  const listeners = FORWARDED.map((name) => [name, () => program.signal(name)] as const);
  for (const [name, forward] of listeners) process.on(name, forward);
  const giveBack = terminal?.lend(program);
  program.begin();
  try {
    return await program.ended.finally(giveBack);
  } finally {
    for (const [name, forward] of listeners) process.removeListener(name, forward);
  }
}

/** As if the program had run outside. */
export function toStatus(end: CommandEnd, { out }: Session, taskId: string): number {
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
