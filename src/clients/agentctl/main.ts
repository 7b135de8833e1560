// Entry point of agentctl: parses the command line, loads the one command, prints faults.
import { diskFault } from '../../platform/disk-fault.ts';
import { FAULTS, Fault, fault } from '../../wire/errors.ts';
import type { Session } from './command.ts';
import type { CommandEnv } from './env.ts';
import { makeOut, toJsonText } from './out.ts';
import { type Parsed, parse } from './parse.ts';
import { connectRuntime, type RuntimeClient } from './runtime.ts';
import { completeIds } from './short-ids.ts';
import { replaceControls } from './show/plain.ts';
import { findStateDir } from './state.ts';

async function main(tokens: readonly string[], env: CommandEnv): Promise<number> {
  if (tokens[0] === '--complete') {
    const { complete } = await import('./completion.ts');
    return complete(tokens.slice(1), env);
  }
  const { parsed, problem } = parse(expandAliases(tokens));
  try {
    if (problem !== undefined) throw problem;
    return await runParsed(parsed, env);
  } catch (error) {
    return printFault(error, parsed.json, env);
  }
}

/** Maps --version and help, as other programs have them, to commands. */
function expandAliases([first, ...rest]: readonly string[]): readonly string[] {
  if (['--version', '-v', '-V'].includes(first ?? '')) return ['version', ...rest];
  if (first === 'help') return [...rest, '--help'];
  return first === undefined ? [] : [first, ...rest];
}

async function runParsed(parsed: Parsed, env: CommandEnv): Promise<number> {
  const out = makeOut(parsed.json, env);
  if (parsed.command === undefined || parsed.help) {
    const { showHelp } = await import('./help.ts');
    return showHelp(parsed, out);
  }
  const run = await parsed.command.load();
  const stateDir = findStateDir(parsed.state, env);
  let runtime: RuntimeClient | undefined;
  const connect = (): RuntimeClient => {
    runtime ??= connectRuntime(stateDir, parsed.as);
    return runtime;
  };
  const args = await completeIds(parsed.command, parsed.args, connect);
  const session: Session = { args, out, stateDir, env, runtime: connect };
  return (await run(session)) ?? 0;
}

function printFault(error: unknown, json: boolean, env: CommandEnv): number {
  const known =
    error instanceof Fault
      ? error
      : (diskFault(error) ?? cutOffFault(error) ?? unexpectedFault(error));
  const { code, message, hint, details } = known;
  const body = { code, message, hint, ...(details === undefined ? {} : { details }) };
  const text = json
    ? toJsonText({ error: body })
    : `agentctl: ${replaceControls(message)} (${code})\n${replaceControls(hint)}`;
  process.stderr.write(`${text}\n`);
  if (!(error instanceof Fault) && (env.AGENTD_DEBUG ?? '') !== '') console.error(error);
  return FAULTS[code].exit;
}

/** A daemon that is killed cuts off the stream that is being read. */
function cutOffFault(error: unknown): Fault | undefined {
  if ((error as NodeJS.ErrnoException | undefined)?.code !== 'HPE_INVALID_EOF_STATE')
    return undefined;
  return fault('unavailable', 'the response was cut off', { hint: 'Retry.', cause: error });
}

function unexpectedFault(error: unknown): Fault {
  const message = error instanceof Error ? error.message : String(error);
  return fault('internal', `unexpected error: ${message}`, {
    hint: 'This is a bug; set AGENTD_DEBUG=1 to print the stack trace.',
    cause: error,
  });
}

process.exitCode = await main(process.argv.slice(2), process.env);
