// agentctl restart: stops the runtime and starts it with the options that it had.
import { DAEMONS } from '../../../wire/daemons.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { Args, Session } from '../command.ts';
import { connectRuntime } from '../runtime.ts';
import { readRuntimeInfo } from '../state.ts';
import { readSupervisor } from '../supervisor.ts';
import { down } from './down.ts';
import { up } from './up.ts';

export async function restart(session: Session): Promise<number> {
  const { stateDir, args } = session;
  const options = keepOptions(args, stateDir);
  await assertConfigIsGood(session);
  // Its result is not this command's: --json prints one document.
  await down({ ...session, out: { ...session.out, print: () => undefined } });
  if (readRuntimeInfo(stateDir) !== undefined)
    throw fault('state_in_use', `the runtime on ${stateDir} was not stopped`);
  return up({ ...session, args: options });
}

/** Has a running runtime read the configuration: it would not start again with a wrong one. */
async function assertConfigIsGood({ stateDir, args }: Session): Promise<void> {
  if (args.text('config') !== undefined || readRuntimeInfo(stateDir) === undefined) return;
  try {
    // That of the session is for the runtime which is started.
    const runtime = connectRuntime(stateDir);
    for (const daemon of DAEMONS) await runtime.call(daemon, 'reload', {});
  } catch (error) {
    // One that does not respond is all the more to be restarted.
    if (error instanceof Fault && error.code === 'bad_config') throw error;
  }
}

function keepOptions(args: Args, stateDir: string): Args {
  const info = readRuntimeInfo(stateDir);
  const supervisor = info === undefined ? undefined : readSupervisor(stateDir);
  const texts: Record<string, string | undefined> = {
    agents: info?.agents_dir,
    config: info?.config_file,
  };
  const numbers: Record<string, number | undefined> = {
    port: info?.port_requested,
    restarts: supervisor?.restarts_max,
  };
  const flags: Record<string, boolean> = {
    split: info?.mode === 'split',
    'no-restart':
      info !== undefined && supervisor === undefined && args.number('restarts') === undefined,
  };
  return {
    ...args,
    flag: (name) => args.flag(name) || flags[name] === true,
    text: (name) => args.text(name) ?? texts[name],
    number: (name) => args.number(name) ?? numbers[name],
  };
}
