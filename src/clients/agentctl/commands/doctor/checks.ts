// The doctor's checks, in the order in which one needs the other.
import type { FeaturesView } from '../../../../wire/sandboxd.ts';
import type { Session } from '../../command.ts';
import { findRunning } from '../../running.ts';
import { checkAudit, checkClock, checkDisk } from './around.ts';
import type { Finding } from './finding.ts';
import { checkKey, checkLock, checkNode, checkRuntimeDir, checkState } from './place.ts';
import {
  checkDaemons,
  checkManifests,
  checkMode,
  checkModels,
  checkRights,
  checkRules,
} from './running.ts';
import { checkSandboxes } from './sandboxes.ts';

export async function runChecks(
  session: Session,
): Promise<{ findings: Finding[]; sandboxes: FeaturesView | undefined }> {
  const { stateDir, env } = session;
  const running = await findRunning(stateDir);
  const found: Finding[] = [
    checkNode(process.versions.node),
    checkState(stateDir),
    checkKey(stateDir),
    checkRuntimeDir(stateDir, env, running?.info),
    checkLock(stateDir, running?.info),
    checkMode(stateDir, running),
  ];
  if (running !== undefined) {
    const runtime = session.runtime();
    const { pid } = await runtime.ask('agentd', 'health', {}, { deadlineMs: 3_000 });
    found.push(checkRights(pid), ...(await checkDaemons(runtime)));
    found.push(await checkModels(runtime), ...(await checkManifests(runtime)));
    found.push(...(await checkRules(runtime)));
  }
  const held = await checkSandboxes(
    stateDir,
    running === undefined ? undefined : session.runtime(),
  );
  found.push(...held.findings);
  found.push(checkAudit(stateDir), checkDisk(stateDir), checkClock(stateDir, Date.now()));
  return { findings: found, sandboxes: held.view };
}
