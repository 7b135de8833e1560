// agentctl doctor: checks what works on this host, prints the command that fixes each problem, and
// lists what this version does not protect against.
import { existsSync } from 'node:fs';
import { FAULTS, Fault } from '../../../wire/errors.ts';
import type { FeaturesView } from '../../../wire/sandboxd.ts';
import type { Session } from '../command.ts';
import type { Style } from '../out.ts';
import { findRunning } from '../running.ts';
import type { RuntimeClient } from '../runtime.ts';
import { replaceControls } from '../show/plain.ts';
import { pad, wrap } from '../show/width.ts';
import {
  checkAudit,
  checkClock,
  checkDisk,
  checkKey,
  checkLock,
  checkNode,
  checkRuntimeDir,
  checkState,
  isReadable,
} from './doctor/environment.ts';
import { type DoctorFinding, fail } from './doctor/finding.ts';
import { checkGrants } from './doctor/grants.ts';
import { listUnprotected } from './doctor/not-protected.ts';
import {
  checkArchive,
  checkDaemons,
  checkIdRanges,
  checkManifests,
  checkMode,
  checkModels,
  checkRestarts,
  checkRights,
  checkRules,
  checkTools,
} from './doctor/runtime.ts';
import { checkSandboxes } from './doctor/sandboxes.ts';

const STYLES: Record<DoctorFinding['status'], Style> = {
  ok: 'green',
  no: 'dim',
  warn: 'yellow',
  fail: 'red',
};

const INDENT = ' '.repeat(18);

export async function doctor(session: Session): Promise<number> {
  const { out } = session;
  const { findings: checks, sandboxes } = await runChecks(session);
  const unprotected = listUnprotected(session.stateDir, sandboxes);
  out.print({ doctor: { checks, not_protected: unprotected } }, () => [
    ...checks.flatMap(({ status, name, message, fix }) => {
      const [first = '', ...more] = wrap(replaceControls(message), out.columns - INDENT.length);
      return [
        `${out.paint(STYLES[status], pad(status, 4))}  ${pad(name, 10)}  ${first}`,
        ...more.map((line) => INDENT + line),
        ...(fix === undefined ? [] : [`${INDENT}fix: ${fix}`]),
      ];
    }),
    '',
    out.paint('bold', 'Not protected yet'),
    ...unprotected.flatMap((text) =>
      wrap(text, Math.min(out.columns, 100) - 4).map(
        (line, i) => `${i === 0 ? '  - ' : '    '}${line}`,
      ),
    ),
  ]);
  return checks.some(({ status }) => status === 'fail') ? FAULTS.conflict.exit : 0;
}

async function runChecks(
  session: Session,
): Promise<{ findings: DoctorFinding[]; sandboxes: FeaturesView | undefined }> {
  const { stateDir, env } = session;
  if (!isReadable(stateDir)) {
    const refused = fail('state', `this user may not read ${stateDir}`, `ls -ld ${stateDir}`);
    return { findings: [checkNode(process.versions.node), refused], sandboxes: undefined };
  }
  const running = await findRunning(stateDir);
  const found: DoctorFinding[] = [
    checkNode(process.versions.node),
    checkState(stateDir),
    checkKey(stateDir),
    checkRuntimeDir(stateDir, env, running?.info),
    checkLock(stateDir, running?.info),
    checkMode(stateDir, running),
  ];
  const runtime = running === undefined ? undefined : connect(session, found);
  if (runtime !== undefined) {
    found.push(
      checkRestarts(stateDir),
      await checkRights(runtime),
      ...(await checkDaemons(runtime)),
    );
    found.push(await checkModels(runtime), ...(await checkManifests(runtime)));
    found.push(...(await checkRules(runtime)), ...(await checkTools(runtime)));
    found.push(...(await checkIdRanges(runtime)));
    found.push(...(await checkArchive(runtime)));
  }
  if (existsSync(stateDir)) found.push(...(await checkGrants(session, runtime)));
  const sandboxes = await checkSandboxes(stateDir, runtime);
  found.push(...sandboxes.findings);
  found.push(checkAudit(stateDir), checkDisk(stateDir), checkClock(stateDir, Date.now()));
  return { findings: found, sandboxes: sandboxes.view };
}

/** A failure to connect is one more finding; the other checks still run. */
function connect(session: Session, found: DoctorFinding[]): RuntimeClient | undefined {
  try {
    return session.runtime();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    found.push(fail('sockets', error.message, 'agentctl down; agentctl up'));
    return undefined;
  }
}
