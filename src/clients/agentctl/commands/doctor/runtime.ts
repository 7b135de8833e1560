// Doctor checks of a running runtime: daemons, models, manifests, rules and tools.
import { readFileSync } from 'node:fs';
import { DAEMONS } from '../../../../wire/daemons.ts';
import type { RuntimeState } from '../../running.ts';
import type { RuntimeClient } from '../../runtime.ts';
import { pluralize } from '../../show/amounts.ts';
import { describeArchiveSchedule } from '../../show/archive-schedule.ts';
import { describeIdRanges } from '../../show/id-ranges.ts';
import { outdatedFault, readRuntimeInfo } from '../../state.ts';
import {
  deadSupervisorFault,
  describeFailure,
  describeRestart,
  describeRestarts,
  readSupervisor,
} from '../../supervisor.ts';
import { formatUserAndUid } from '../../user-name.ts';
import { describeModels, isOnlyRehearsal } from '../catalog.ts';
import { type DoctorFinding, fail, no, ok, warn } from './finding.ts';

const LAYOUTS = {
  embedded: 'the warden and auditd-ai have their own processes, the other daemons share one',
  split: 'every daemon has its own process',
} as const;

export function checkMode(stateDir: string, running: RuntimeState | undefined): DoctorFinding {
  const supervisor = readSupervisor(stateDir);
  if (running === undefined) {
    if (supervisor?.state === 'failed')
      return fail(
        'runtime',
        `${describeFailure(supervisor)}; see ${stateDir}/logs/runtime.log`,
        'agentctl up',
      );
    if (supervisor?.isAlive === true) return warn('runtime', describeRestart(supervisor));
    const lastInfo = readRuntimeInfo(stateDir);
    if (lastInfo === undefined) return warn('runtime', 'no runtime is running', 'agentctl up');
    const text = `the runtime (pid ${lastInfo.pid}) exited without shutting down (crash or kill -9)`;
    return warn('runtime', `${text}; \`agentctl up\` will resume its work`, 'agentctl up');
  }
  const { info, answers } = running;
  const { outdated = [] } = info;
  if (outdated.length > 0)
    return fail('runtime', outdatedFault(outdated).message, 'agentctl down; agentctl up');
  if (!answers)
    return fail(
      'runtime',
      `pid ${info.pid} is alive, but agentd does not respond`,
      'agentctl down',
    );
  return ok('runtime', `${info.mode} mode, pid ${info.pid}: ${LAYOUTS[info.mode]}`);
}

/** Reports the restarts so far, and whether a crash would lead to one. */
export function checkRestarts(stateDir: string): DoctorFinding {
  const supervisor = readSupervisor(stateDir);
  if (supervisor === undefined)
    return no('restarts', 'agentctl does not restart this runtime after a crash');
  if (!supervisor.isAlive) {
    const { message } = deadSupervisorFault(supervisor);
    return warn('restarts', message, 'agentctl down; agentctl up');
  }
  const restarts = describeRestarts(supervisor);
  if (restarts !== undefined)
    return warn('restarts', `${restarts}; see ${stateDir}/logs/runtime.log`);
  const max = pluralize(supervisor.restarts_max, 'time');
  return ok('restarts', `none; after a crash it is restarted, up to ${max} in ten minutes`);
}

export async function checkRights(runtime: RuntimeClient): Promise<DoctorFinding> {
  try {
    const { pid } = await runtime.call('agentd', 'health', {}, { deadlineMs: 3_000 });
    return findRights(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch (error) {
    return fail('rights', (error as Error).message, 'agentctl down; agentctl up');
  }
}

function findRights(status: string): DoctorFinding {
  const field = (name: string) => new RegExp(`^${name}:\\s+(\\w+)`, 'm').exec(status)?.[1] ?? '';
  const uid = Number(field('Uid'));
  const rights = /^0+$/.test(field('CapEff')) ? 'no capability' : `capabilities ${field('CapEff')}`;
  const more = field('NoNewPrivs') === '1' ? ' and no way to gain any' : '';
  const text = `the daemons run as ${formatUserAndUid(uid)}, with ${rights}${more}`;
  if (uid !== 0) return ok('rights', text);
  return warn(
    'rights',
    `${text}: an attacker who controls one controls this machine`,
    'agentctl down; agentctl up',
  );
}

export async function checkDaemons(runtime: RuntimeClient): Promise<DoctorFinding[]> {
  return Promise.all(
    DAEMONS.map(async (daemon): Promise<DoctorFinding> => {
      try {
        const health = await runtime.call(daemon, 'health', {}, { deadlineMs: 3_000 });
        if (health.status !== 'ok') return warn(daemon, `is ${health.status}`);
        return ok(daemon, `responds (pid ${health.pid})`);
      } catch (error) {
        return fail(daemon, (error as Error).message, 'agentctl down; agentctl up');
      }
    }),
  );
}

/** Uids of agents and gids of task trees; an older runtime does not report them. */
export async function checkIdRanges(runtime: RuntimeClient): Promise<DoctorFinding[]> {
  try {
    const identity = await runtime.call('sandboxd', 'identity', {}, { deadlineMs: 3_000 });
    const described = describeIdRanges(identity);
    if (described === undefined) return [];
    const { text, fix } = described;
    return [fix === undefined ? ok('ids', text) : warn('ids', text, `${fix} in agentd.yaml`)];
  } catch {
    return []; // The checks of daemons report that sandboxd does not respond.
  }
}

/** Reports the hourly archiving of the audit log, if it is configured. */
export async function checkArchive(runtime: RuntimeClient): Promise<DoctorFinding[]> {
  try {
    const request = { query: { limit: 1 } };
    const options = { deadlineMs: 3_000 };
    const { automatic } = await runtime.call('auditd-ai', 'listSegments', request, options);
    if (automatic === undefined) return [];
    const text = describeArchiveSchedule(automatic);
    return [automatic.error === null ? ok('archive', text) : warn('archive', text)];
  } catch {
    return []; // The checks of daemons report that auditd-ai does not respond.
  }
}

export async function checkModels(runtime: RuntimeClient): Promise<DoctorFinding> {
  try {
    const all = await runtime.call('modeld', 'listModels', {}, { deadlineMs: 3_000 });
    const broken = all.providers.filter(({ available }) => !available);
    if (isOnlyRehearsal(all))
      return warn(
        'models',
        'the rehearsal responds, not a real model',
        'agentctl model add --help',
      );
    if (broken.length === 0) return ok('models', describeModels(all));
    const why = broken.map(({ name, reason }) => `${name}: ${reason ?? 'not available'}`);
    return warn('models', why.join('; '), `agentctl model add ${broken[0]!.name}`);
  } catch (error) {
    return fail('models', (error as Error).message, 'agentctl down; agentctl up');
  }
}

/** While a changed rule file is invalid, its last valid version stays in force. */
export async function checkRules(runtime: RuntimeClient): Promise<DoctorFinding[]> {
  try {
    const { policy } = await runtime.call('agentd', 'getPolicy', {}, { deadlineMs: 3_000 });
    const { problems, site, policies_dir } = policy;
    if (problems.length === 0)
      return [ok('rules', `${pluralize(site.length, 'site file')} in ${policies_dir}`)];
    return problems.map(({ file, line, message, hint }) =>
      warn('rules', `${file}${line === null ? '' : `:${line}`} is invalid: ${message}`, hint),
    );
  } catch (error) {
    return [fail('rules', (error as Error).message, 'agentctl down; agentctl up')];
  }
}

export async function checkTools(runtime: RuntimeClient): Promise<DoctorFinding[]> {
  try {
    const { problems = [] } = await runtime.call('toold', 'listTools', {}, { deadlineMs: 3_000 });
    return problems.map(({ file, line, message, hint }) =>
      warn('tools', `${file}${line === null ? '' : `:${line}`}: ${message}`, hint),
    );
  } catch (error) {
    return [fail('tools', (error as Error).message, 'agentctl down; agentctl up')];
  }
}

export async function checkManifests(runtime: RuntimeClient): Promise<DoctorFinding[]> {
  try {
    const { agents, problems } = await runtime.call(
      'agentd',
      'listAgents',
      {},
      { deadlineMs: 3_000 },
    );
    if (problems.length === 0 && agents.length === 0)
      return [warn('manifests', 'no agents', 'agentctl agent create --help')];
    if (problems.length === 0) return [ok('manifests', `${pluralize(agents.length, 'agent')}`)];
    return problems.map(({ file, line, message, hint }) =>
      warn('manifests', `${file}${line === null ? '' : `:${line}`}: ${message}`, hint),
    );
  } catch (error) {
    return [fail('manifests', (error as Error).message, 'agentctl down; agentctl up')];
  }
}
