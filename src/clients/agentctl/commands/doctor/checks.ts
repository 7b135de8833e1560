// The doctor's checks, in the order in which one needs the other.
import { Fault } from '../../../../wire/errors.ts';
import type { FeaturesView } from '../../../../wire/sandboxd.ts';
import type { Session } from '../../command.ts';
import { findRunning } from '../../running.ts';
import type { Runtime } from '../../runtime.ts';
import { checkAudit, checkClock, checkDisk } from './around.ts';
import { type Finding, fail } from './finding.ts';
import {
  checkKey,
  checkLock,
  checkNode,
  checkRuntimeDir,
  checkState,
  isReadable,
} from './place.ts';
import {
  checkDaemons,
  checkManifests,
  checkMode,
  checkModels,
  checkRights,
  checkRules,
  checkTools,
} from './running.ts';
import { checkSandboxes } from './sandboxes.ts';

export async function runChecks(
  session: Session,
): Promise<{ findings: Finding[]; sandboxes: FeaturesView | undefined }> {
  const { stateDir, env } = session;
  // Of what cannot be looked into, nothing more can be said.
  if (!isReadable(stateDir)) {
    const refused = fail('state', `this user may not look into ${stateDir}`, `ls -ld ${stateDir}`);
    return { findings: [checkNode(process.versions.node), refused], sandboxes: undefined };
  }
  const running = await findRunning(stateDir);
  const found: Finding[] = [
    checkNode(process.versions.node),
    checkState(stateDir),
    checkKey(stateDir),
    checkRuntimeDir(stateDir, env, running?.info),
    checkLock(stateDir, running?.info),
    checkMode(stateDir, running),
  ];
  const runtime = running === undefined ? undefined : connect(session, found);
  if (runtime !== undefined) {
    found.push(await checkRights(runtime), ...(await checkDaemons(runtime)));
    found.push(await checkModels(runtime), ...(await checkManifests(runtime)));
    found.push(...(await checkRules(runtime)), ...(await checkTools(runtime)));
  }
  const held = await checkSandboxes(stateDir, runtime);
  found.push(...held.findings);
  found.push(checkAudit(stateDir), checkDisk(stateDir), checkClock(stateDir, Date.now()));
  return { findings: found, sandboxes: held.view };
}

/** One that cannot even be asked is one more finding: the rest is looked at all the same. */
function connect(session: Session, found: Finding[]): Runtime | undefined {
  try {
    return session.runtime();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    found.push(fail('sockets', error.message, 'agentctl down; agentctl up'));
    return undefined;
  }
}
