// Reads what the supervisor (native/supervisor) wrote about a runtime that died: whether it is
// being restarted, or no longer. Loads Node's modules like state.ts, for the same reason.
import { fault } from '../../wire/errors.ts';
import { formatRelative, formatSpan, pluralize } from './show/amounts.ts';
import { isAlive } from './state.ts';

export const SUPERVISOR_FILE = 'supervisor.json';

export type SupervisorRecord = {
  pid: number;
  /** `failed`: it gave up, because the runtime died too often. */
  state: 'starting' | 'running' | 'restarting' | 'stopping' | 'stopped' | 'failed';
  started_at: string;
  /** Since `started_at`. */
  restarts: number;
  restarts_max: number;
  /** Deaths in the last ten minutes, and the time between the first and the last of them. */
  deaths: number;
  deaths_span_ms: number;
  last: { at: string; reason: string } | null;
  retry_at: string | null;
};

/** `isAlive`: the supervisor itself still runs. */
export type Supervisor = SupervisorRecord & { isAlive: boolean };

/** Returns undefined for a runtime that was started without a supervisor. */
export function readSupervisor(stateDir: string): Supervisor | undefined {
  try {
    const text = readText(`${stateDir}/${SUPERVISOR_FILE}`);
    const record = JSON.parse(text) as SupervisorRecord;
    return { ...record, isAlive: isSupervisor(record.pid, stateDir) };
  } catch {
    return undefined;
  }
}

const readText = (file: string): string =>
  process.getBuiltinModule('node:fs').readFileSync(file, 'utf8');

/** Another program may have reused the pid of a dead supervisor. */
function isSupervisor(pid: number, stateDir: string): boolean {
  try {
    const argv = readText(`/proc/${pid}/cmdline`).split('\0');
    return isAlive(pid) && argv[0]?.endsWith('/supervisor') === true && argv.includes(stateDir);
  } catch {
    return false;
  }
}

/** True between the runtime's death and the end of its restart. */
export function isRestarting(stateDir: string): boolean {
  const supervisor = readSupervisor(stateDir);
  return supervisor?.isAlive === true && supervisor.state === 'restarting';
}

/** The fault of a runtime that is down, when the supervisor knows more about it. */
export function supervisedDownFault(stateDir: string, cause?: unknown) {
  const supervisor = readSupervisor(stateDir);
  if (supervisor === undefined) return undefined;
  if (supervisor.state === 'failed')
    return fault('runtime_down', describeFailure(supervisor), {
      hint: 'Read logs/runtime.log in the state directory; start it again with agentctl up.',
      cause,
    });
  if (!supervisor.isAlive || supervisor.state !== 'restarting') return undefined;
  return fault('runtime_down', describeRestart(supervisor), {
    hint: 'Retry in a moment. agentctl down stops the restarts.',
    cause,
  });
}

export function describeFailure({ deaths, deaths_span_ms, last }: SupervisorRecord): string {
  const span = formatSpan(Math.max(1_000, deaths_span_ms));
  return `the runtime died ${pluralize(deaths, 'time')} in ${span}; last: ${last?.reason}`;
}

export function describeRestart({ state, last, retry_at, restarts }: SupervisorRecord): string {
  if (state === 'stopping') return 'the runtime is being stopped';
  if (last === null) return 'the runtime is being started';
  const when = retry_at === null ? '' : ` ${formatRelative(retry_at, Date.now())}`;
  return `the runtime died (${last.reason}) and is being restarted${when} (restart ${restarts})`;
}

/** Describes the restarts of a running runtime; undefined if there were none. */
export function describeRestarts({ restarts, last }: SupervisorRecord): string | undefined {
  if (restarts === 0 || last === null) return undefined;
  const when = formatRelative(last.at, Date.now());
  return `${pluralize(restarts, 'restart')} after a crash; last ${when}: ${last.reason}`;
}

export const deadSupervisorFault = ({ pid }: SupervisorRecord) =>
  fault('runtime_down', `the supervisor (pid ${pid}) has died; a crash would not be repaired`, {
    hint: 'Restart the runtime: agentctl down, then agentctl up.',
  });
