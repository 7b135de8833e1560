// Doctor checks of the directories that people let agents work in.
import { spawnSync } from 'node:child_process';
import { quoteWord } from '../../../../platform/quote-word.ts';
import { Fault } from '../../../../wire/errors.ts';
import type { Session } from '../../command.ts';
import type { CommandEnv } from '../../env.ts';
import type { WorkspaceGrant } from '../../grants/grant-file.ts';
import { openGrants, readGrantState } from '../../grants/grants.ts';
import { describeOpenings, inspectDirectory } from '../../grants/inspect.ts';
import type { RuntimeClient } from '../../runtime.ts';
import { pluralize } from '../../show/amounts.ts';
import { type DoctorFinding, no, ok, warn } from './finding.ts';

const SETTING = 'safe.bareRepository';
const GIT_TIMEOUT_MS = 3_000;

export async function checkGrants(
  session: Pick<Session, 'stateDir' | 'env'>,
  runtime: RuntimeClient | undefined,
): Promise<DoctorFinding[]> {
  let grants: WorkspaceGrant[];
  try {
    grants = await openGrants(session).list();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return [no('grants', error.message)];
  }
  if (grants.length === 0) return [ok('grants', 'agents may work in no directory of a person')];
  const paths = grants.map(({ path }) => path).sort();
  const text = `agents may work in ${pluralize(paths.length, 'directory', 'directories')}`;
  return [
    ok('grants', `${text}: ${paths.join(', ')}`),
    ...grants.flatMap(checkGrant),
    ...(runtime === undefined ? [] : await checkLayers(runtime, grants)),
    ...checkGitSettings(session.env),
  ];
}

/** Overlays need no words: they are what is expected. */
async function checkLayers(
  runtime: RuntimeClient,
  grants: readonly WorkspaceGrant[],
): Promise<DoctorFinding[]> {
  const usable = grants.filter((one) => one.access !== 'read' && readGrantState(one) === 'ok');
  const findings = await Promise.all(
    usable.map(async ({ path }): Promise<DoctorFinding[]> => {
      const { mechanism, reason } = await runtime.call('sandboxd', 'probeLayer', {
        query: { path },
      });
      if (mechanism === 'copy') return [ok('layers', `a copy for ${path}: ${reason}`)];
      if (mechanism === 'overlay') return [];
      return [warn('layers', `none for ${path}: ${reason}`, 'agentctl task create --live …')];
    }),
  );
  return findings.flat();
}

/** With --live an agent could make a directory look like a bare repository. */
function checkGitSettings(env: CommandEnv): DoctorFinding[] {
  const options = { cwd: '/', env, encoding: 'utf8', timeout: GIT_TIMEOUT_MS } as const;
  const { error, stdout } = spawnSync('git', ['config', '--get', SETTING], options);
  if (error !== undefined || stdout.trim().toLowerCase() === 'explicit') return [];
  return [
    warn(
      'git',
      'git uses any directory that looks like a bare repository; agents that work in place (--live) can make one',
      `git config --global ${SETTING} explicit`,
    ),
  ];
}

function checkGrant(grant: WorkspaceGrant): DoctorFinding[] {
  const state = readGrantState(grant);
  const { path } = grant;
  if (state === 'gone')
    return [warn('grants', `${path} is gone`, `agentctl workspace revoke ${quoteWord(path)}`)];
  if (state === 'changed')
    return [
      warn(
        'grants',
        `${path} is not the directory that was granted`,
        `agentctl workspace grant ${quoteWord(path)}`,
      ),
    ];
  if (grant.access === 'read') return [];
  const fix = `find ${quoteWord(path)} -xdev -type f -links +1`;
  return describeOpenings(path, inspectDirectory(path)).map((message) =>
    warn('grants', message, fix),
  );
}
