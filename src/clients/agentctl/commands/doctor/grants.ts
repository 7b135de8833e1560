// Doctor checks of the directories that people let agents work in.

import { quoteWord } from '../../../../platform/quote-word.ts';
import { Fault } from '../../../../wire/errors.ts';
import type { Session } from '../../command.ts';
import type { WorkspaceGrant } from '../../grants/grant-file.ts';
import { openGrants, readGrantState } from '../../grants/grants.ts';
import { describeOpenings, inspectDirectory } from '../../grants/inspect.ts';
import { pluralize } from '../../show/amounts.ts';
import { type DoctorFinding, no, ok, warn } from './finding.ts';

export async function checkGrants(session: Pick<Session, 'stateDir' | 'env'>) {
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
  return [ok('grants', `${text}: ${paths.join(', ')}`), ...grants.flatMap(checkGrant)];
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
  const fix = `find ${quoteWord(path)} -xdev -type f -links +1`;
  return describeOpenings(path, inspectDirectory(path)).map((message) =>
    warn('grants', message, fix),
  );
}
